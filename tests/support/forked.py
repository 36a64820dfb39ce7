"""Processes that fork from one which has imported what they need; its program is `fork_server.py`."""

import atexit
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, ClassVar

from .fork_server import Request
from .process import ROOT, Process, Running

LIGHTER = Path(__file__).with_name("lighter")  # modules that a worker imports and does not use
OURS = os.pathsep.join(filter(None, [str(ROOT), str(LIGHTER), os.environ.get("PYTHONPATH")]))

PYTHON = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
}  # of all workers, and read when Python starts


class Forked:
    """A process that is no child of this one: its parent sends its id, and its exit code at its end."""

    def __init__(self, status: IO[bytes]) -> None:
        self._status = status
        self._code: int | None = None
        self.pid = self._number()

    def poll(self) -> int | None:
        return self._code if self._ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended(timeout) or self._code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return self._code

    def _ended(self, timeout: float | None) -> bool:
        if self._code is None and _readable(self._status, timeout):
            self._code = self._number()
            self._status.close()
        return self._code is not None

    def _number(self) -> int:
        line = self._status.readline()
        if not line:
            raise ChildProcessError("the parent of a forked process has ended before it")
        return int(line)


def _readable(file: IO[bytes], timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(None if timeout is None else timeout * 1000))


class ForkServer(Process):
    """The process that forks; it ends with the one that started it."""

    def __init__(self, env: Mapping[str, str], more: Sequence[str] = ()) -> None:
        command = [sys.executable, "-m", "tests.support.fork_server", *more]
        super().__init__("fork-server", command, env=env)
        self._requests, self._standard_input = socket.socketpair(type=socket.SOCK_SEQPACKET)

    def _spawn(self, log: IO[bytes], stdin: int = subprocess.DEVNULL) -> Running:
        with self._standard_input:
            return super()._spawn(log, self._standard_input.fileno())

    def fork(
        self,
        request: Request,
        out: IO[bytes],
        errors: IO[bytes] | None = None,  # if they go elsewhere
        given: IO[bytes] | None = None,  # to be read; else nothing
    ) -> Forked:
        """Run this module in a new process with a session of its own."""
        reader, writer = os.pipe()
        status = os.fdopen(reader, "rb", buffering=0)
        try:
            with os.fdopen(writer, "wb", buffering=0), Path(os.devnull).open("rb") as nothing:
                files = (given or nothing, out, errors or out)
                descriptors = [*(file.fileno() for file in files), writer]
                socket.send_fds(self._requests, [request.encoded()], descriptors)
            return Forked(status)
        except OSError as error:
            raise ChildProcessError(f"no process forked\n{self.log_tail()}") from error

    def discard(self) -> None:
        self._requests.close()
        super().discard()


@cache
def fork_server(*more: str) -> ForkServer:
    """Return the one of this process that has imported more modules, too."""
    server = ForkServer(PYTHON | {"PYTHONPATH": OURS}, more).start()
    atexit.register(server.discard)
    return server


def may_fork(env: Mapping[str, str]) -> bool:
    """Tell whether the ordinary way would find the same modules."""
    return sys.platform == "linux" and env.get("PYTHONPATH") in {OURS, str(ROOT)}


class ForkedProcess(Process):
    """``python -m`` of a module, forked from a process that has imported most of what it imports, if it may be."""

    more: ClassVar[Sequence[str]] = ()  # what that process imports besides
    patches = False  # modules, before it imports any other

    def _spawn(self, log: IO[bytes], stdin: int = subprocess.DEVNULL) -> Running:
        if self.patches or not may_fork(self.env):
            return super()._spawn(log, stdin)
        module, *arguments = self.command[2:]
        request = Request(module, arguments, os.environ | self.env)
        return fork_server(*self.more).fork(request, log)
