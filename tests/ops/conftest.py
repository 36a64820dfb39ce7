"""Celery's own command line, beside real workers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, Any

import pytest

from tests.support.counter import Counter, CounterServer
from tests.support.fork_server import Request
from tests.support.forked import Forked, fork_server
from tests.support.process import ROOT
from tests.support.servers import ValkeyServer
from tests.worker.conftest import Site, rabbit_site, site_on

__all__ = ["rabbit_site"]  # a fixture


@dataclass
class Said:
    code: int
    out: str
    err: str


def _kill(process: Forked) -> None:
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@dataclass
class Command:
    """``celery -A tests.worker.app semaphore``, or another group of Celery's commands."""

    env: dict[str, str] = field(default_factory=dict)
    group: str = "semaphore"
    app: str | None = "tests.worker.app"

    def __call__(self, *words: str, typed: str = "") -> Said:
        app = ("-A", self.app) if self.app else ()
        request = Request("celery", [*app, self.group, *words], os.environ | self.env)
        with ExitStack() as stack:
            given, out, error = (stack.enter_context(TemporaryFile()) for _ in range(3))
            given.write(typed.encode())
            given.seek(0)
            process = fork_server(str(ROOT)).fork(request, out, error, given)
            stack.callback(_kill, process)
            return Said(process.wait(60), _text(out), _text(error))

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
