"""Celery's own command line, beside real workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, Any

import pytest

from tests.support.counter import Counter, CounterServer
from tests.support.fork_server import Request
from tests.support.forked import fork_server
from tests.support.process import ROOT, Running
from tests.support.servers import ValkeyServer
from tests.worker.conftest import Site, rabbit_site, site_on

__all__ = ["rabbit_site"]  # a fixture
TIMEOUT_S = 60.0


@dataclass
class Said:
    code: int
    out: str
    err: str


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@dataclass
class Command:
    """``celery -A tests.worker.app semaphore``, or another group of Celery's commands."""

    env: dict[str, str] = field(default_factory=dict)
    group: str = "semaphore"
    app: str | None = "tests.worker.app"
    forks: bool = sys.platform == "linux"  # from a process that has imported Celery

    def __call__(self, *words: str, typed: str = "") -> Said:
        app = ("-A", self.app) if self.app else ()
        arguments = [*app, self.group, *words]
        with ExitStack() as stack:
            given, out, errors = (stack.enter_context(TemporaryFile()) for _ in range(3))
            given.write(typed.encode())
            given.seek(0)
            process = self._started(arguments, given, out, errors)
            try:
                return Said(process.wait(TIMEOUT_S), _text(out), _text(errors))
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                found = f"{_text(out)}{_text(errors)}"
                raise TimeoutError(f"celery {' '.join(arguments)}: no end\n{found}") from None

    def _started(
        self, arguments: list[str], given: IO[bytes], out: IO[bytes], errors: IO[bytes]
    ) -> Running:
        env = os.environ | {"PYTHONPATH": str(ROOT)} | self.env
        if self.forks:
            return fork_server(str(ROOT)).fork(
                Request("celery", arguments, env), out, errors, given
            )
        command = [sys.executable, "-m", "celery", *arguments]
        return subprocess.Popen(command, env=env, stdin=given, stdout=out, stderr=errors)

    def json(self, *words: str) -> Any:
        said = self(*words, "--json")
        assert said.code == 0, said
        return json.loads(said.out)

    def says(self, *words: str) -> str:
        said = self(*words)
        assert said.code == 0, said
        return said.out


@pytest.fixture
def site(valkey: ValkeyServer, counter_server: CounterServer, counter: Counter) -> Iterator[Site]:
    """Broker, result backend and store of one test."""
    yield from site_on(valkey, counter_server)


@pytest.fixture
def semaphore(site: Site) -> Command:
    return Command(site.env())
