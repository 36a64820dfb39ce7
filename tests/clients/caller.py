"""A program in JavaScript that takes permits, and does what a test tells it: clients/node/test/caller.js."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Self

from tests.support.node import FOLDER

ANSWER_TIMEOUT_S = 60.0


class CallerError(Exception):
    """What a call of JavaScript threw: its name, its message and the name of its cause."""

    def __init__(self, name: str, message: str, cause: str | None) -> None:
        super().__init__(f"{name}: {message}")
        self.name, self.message, self.cause = name, message, cause


class Caller:
    """One process; several of its calls may be under way."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["node", "--no-warnings", "test/caller.js"],
            cwd=FOLDER,
            env=os.environ | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._numbers = itertools.count()
        self._answers: dict[int, Future[Any]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, command: str, **given: Any) -> Future[Any]:
        """Make a call; its future has the answer."""
        number, answer = next(self._numbers), Future[Any]()
        self._answers[number] = answer
        assert self._process.stdin
        print(
            json.dumps({"id": number, "command": command, **given}),
            file=self._process.stdin,
            flush=True,
        )
        return answer

    def ask(self, command: str, **given: Any) -> Any:
        return self.begin(command, **given).result(ANSWER_TIMEOUT_S)

    def open(self, url: str, name: str = "api", *, at: str = "api", **options: Any) -> Self:
        self.ask("open", at=at, name=name, options={"url": url, **options})
        return self

    def acquire(self, **given: Any) -> Any:
        return self.ask("acquire", **{"at": "api", "as": "a", "timeoutMs": 30_000, **given})

    def release(self, name: str = "a") -> None:
        self.ask("release", **{"as": name})

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            said = json.loads(line)
            answer = self._answers.pop(said["id"])
            if "error" in said:
                answer.set_exception(CallerError(*said["error"]))
            else:
                answer.set_result(said["value"])
        for answer in list(self._answers.values()):
            answer.set_exception(ChildProcessError("node ended"))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def ends_by_itself(self, timeout: float) -> int:
        """Return the exit code, once it has nothing left to do."""
        assert self._process.stdin
        self._process.stdin.close()
        return self._process.wait(timeout)

    def discard(self) -> None:
        self.kill()
        self._reader.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
