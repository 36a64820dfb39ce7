"""Celery's own command line, beside real workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.counter import Counter, CounterServer
from tests.support.process import ROOT
from tests.support.python import forked, python
from tests.support.servers import ValkeyServer
from tests.worker.conftest import Site, rabbit_site, site_on

__all__ = ["rabbit_site"]  # a fixture


@dataclass
class Said:
    code: int
    out: str
    err: str


@dataclass
class Command:
    """``celery -A tests.worker.app semaphore``, or another group of Celery's commands."""

    env: dict[str, str] = field(default_factory=dict)
    group: str = "semaphore"
    app: str | None = "tests.worker.app"
    forks: bool = True  # from a process that has imported Celery

    def __call__(self, *words: str, typed: str = "") -> Said:
        arguments = ["celery", *(("-A", self.app) if self.app else ()), self.group, *words]
        env = {"PYTHONPATH": str(ROOT)} | self.env
        if self.forks:
            done = forked(*arguments, env=env, typed=typed)
        else:
            done = python("-m", *arguments, env=env, typed=typed)
        return Said(done.returncode, done.stdout, done.stderr)

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
