"""A life in which most calls of acquire and release may be short, lived on two databases of a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.stores.redis.backoff import Backoff
from celery_semaphore.testing.clock import Clock
from tests.support.other_run import change_run
from tests.support.servers import RedisServer

from .life import API, DISK, Life, Side

LASTING_KEYS = str(Path(__file__).with_name("lasting_keys"))  # a part of a script
READS = {b"hash": ("HGETALL",), b"zset": ("ZRANGE", 0, -1, "WITHSCORES"), b"string": ("GET",)}


class Shorts:
    """Makes a short call wherever it may be short, and counts those that sufficed."""

    def __init__(self, store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tried = self.sufficed = 0
        self._run_short = store._runner.run_short
        monkeypatch.setattr(Backoff, "is_due", lambda _: True)
        monkeypatch.setattr(store._runner, "run_short", self._tried)

    def _tried(self, *given: Any) -> Any:
        answer, sufficed = self._run_short(*given)
        self.tried += 1
        self.sufficed += sufficed
        return answer, sufficed


def never_short(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    run = store._runner.run
    monkeypatch.setattr(
        store._runner, "run_short", lambda _, script, call: (run(script, *call), False)
    )


class QuietLife(Life):
    """Few tasks wait, so that most calls may be short."""

    def claims(self) -> tuple[Claim, ...]:
        limit = self.dice.choices((20, None, 15, 2), (40, 4, 2, 0.2))[0]
        api, disk = Claim("api", "eu", limit), Claim(DISK, None, 12)
        heavy = Claim("api", "eu", limit, 2)
        return self.dice.choices([(api,), (disk,), (heavy,), (api, disk)], [40, 20, 0.4, 0.4])[0]

    def pass_time(self) -> None:
        self.clock.advance(self.dice.choices((0.020003, 0.35, 1.1, 3.1), (40, 4, 1, 1))[0])

    def crash(self) -> None:
        if self.dice.random() < 0.3:
            super().crash()

    def step_back(self) -> None:
        if self.dice.random() < 0.3:
            super().step_back()

    def set_limit(self) -> None:
        name, limit = self.dice.choice((API, "api")), self.dice.choice((None, None, 16, 16, 6))
        self.ask(lambda store: store.set_limit(limit, name), "set_limit")

    def declare(self) -> None:
        limit = self.dice.choice((20, 20, 14))
        self.ask(lambda store: store.declare({"api//": limit}, "a worker"), "declare")


Sides = Callable[[Clock], tuple[tuple[Side, Side], Shorts]]


def side(server: RedisServer, store: RedisStore, database: int) -> Side:
    client: Any = server.client(database)
    return Side(store, lambda: rows(client), client.flushdb, lambda: change_run(client, "before"))


def rows(client: Any) -> list[tuple[str, str]]:
    """Return each key, but the one with the name of each store's process, and what it has; whether it expires, too."""
    keys = [key for key in client.keys("*") if not key.endswith(b":processes")]
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.type(key)
        pipe.pttl(key)
    said = pipe.execute()
    for key, kind in zip(keys, said[::2], strict=True):
        command, *words = READS[kind]
        pipe.execute_command(command, key, *words)
    found = zip(keys, pipe.execute(), said[1::2], strict=True)
    return [(key.decode(), f"{content(read)} {left > 0}") for key, read, left in found]


def content(read: Any) -> Any:
    return sorted(read.items()) if isinstance(read, dict) else read
