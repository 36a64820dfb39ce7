"""A short call in vain is an exception: a pair is hardly more than two scripts, whatever short calls make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.redis import RedisStore, connection
from celery_semaphore.stores.redis.backoff import MOST_LEFT_OUT
from celery_semaphore.testing.clock import Clock
from tests.support.servers import RedisServer

from .conftest import OpenAt, claim, permit_of, refusal_of

LEASE = 30.0
WARM_UP = 2 * MOST_LEFT_OUT  # pairs, after which as few are tried as ever
PAIRS = MOST_LEFT_OUT + 1  # in which each operation tries once, if it is always in vain

Pair = Callable[[str], object]


@dataclass
class Scene:
    """A store with a clock, and pairs of calls with it."""

    store: RedisStore
    clock: Clock
    reopen: Callable[[], RedisStore]

    def pair(self, claims: list[Claim], holder: str) -> None:
        permit_of(self.store.acquire(claims, holder))
        self.store.release(holder, claims)

    def pass_time(self, seconds: float) -> None:
        """Let time pass in which others call, so that it is no silence."""
        for _ in range(round(seconds / 5)):
            self.clock.advance(5.0)
            self.store.snapshot("of a bystander")


def common(scene: Scene) -> Pair:
    return lambda holder: scene.pair(claim(5), holder)


def no_limit_but_that_of_an_operator(scene: Scene) -> Pair:
    scene.store.set_limit(5, "api")
    return lambda holder: scene.pair([Claim("api", None, None)], holder)


def no_limit_declared_for_windows(scene: Scene) -> Pair:
    scene.pair(claim(5), "before")
    scene.pass_time(3 * LEASE)
    return lambda holder: scene.pair([Claim("api", None, None)], holder)


def beside_a_heavy_one(scene: Scene) -> Pair:
    permit_of(scene.store.acquire([Claim("api", None, 10, 2)], "heavy"))
    return lambda holder: scene.pair(claim(10), holder)


def seldom(scene: Scene) -> Pair:
    def pair(holder: str) -> None:
        scene.pair(claim(5), holder)
        scene.clock.advance(LEASE / 6)

    return pair


def at_a_key_of_its_own(scene: Scene) -> Pair:
    return lambda holder: scene.pair([Claim("api", holder, 5)], holder)


def without_the_right_to_info_beside_one_with_it(scene: Scene) -> Pair:
    scene.pair(claim(5), "before")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_info", lambda _: {})
        scene.store = scene.reopen()
        scene.pair(claim(5), "connected")
    return lambda holder: scene.pair(claim(5), holder)


def in_vain(scene: Scene) -> Pair:
    """Try while all permits are held."""
    permit_of(scene.store.acquire(claim(1), "held"))

    def pair(holder: str) -> None:
        refusal_of(scene.store.acquire(claim(1), holder))
        scene.store.release(holder, claim(1))

    return pair


def beside_a_wait(scene: Scene) -> Pair:
    pair = in_vain(scene)
    assert refusal_of(scene.store.acquire(claim(1), "waits", Wait(Kind.REQUEUE))).ticket
    return pair


def by_turns_with_and_without_a_free_permit(scene: Scene) -> Pair:
    """Let a refusal follow each permit, so that what was last learnt is always wrong."""

    def pair(holder: str) -> None:
        permit_of(scene.store.acquire(claim(1), holder))
        refusal_of(scene.store.acquire(claim(1), f"{holder}, too"))
        scene.store.release(f"{holder}, too", claim(1))
        scene.store.release(holder, claim(1))

    return pair


ONE_IN_65 = 1 / PAIRS


@pytest.mark.parametrize(
    ("scenery", "most"),
    [
        (common, 2),
        (no_limit_but_that_of_an_operator, 2),
        (no_limit_declared_for_windows, 2),
        (at_a_key_of_its_own, 2),
        (beside_a_heavy_one, 2 + ONE_IN_65),
        (seldom, 2 + ONE_IN_65),
        (without_the_right_to_info_beside_one_with_it, 2 + 2 * ONE_IN_65),
        (in_vain, 2 + 2 * ONE_IN_65),
        (beside_a_wait, 2 + 2 * ONE_IN_65),
        (by_turns_with_and_without_a_free_permit, 4 + 4 / 3),
    ],
)
def test_scripts_of_a_pair(
    server: RedisServer, open_at: OpenAt, scenery: Callable[[Scene], Pair], most: float
) -> None:
    clock = Clock()

    def opened() -> RedisStore:
        return open_at(server.url, now=clock, lease=LEASE)

    pair = scenery(Scene(opened(), clock, opened))
    for n in range(WARM_UP):
        pair(f"warm-up-{n}")
    with server.client() as client:
        before = scripts(client)
        for n in range(PAIRS):
            pair(f"counted-{n}")
        assert scripts(client) - before <= most * PAIRS


def test_releases_are_short_where_acquires_are_in_vain(
    server: RedisServer, open_at: OpenAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    store = open_at(server.url, now=clock, lease=LEASE)
    pair = beside_a_heavy_one(Scene(store, clock, lambda: store))
    run, sufficed = store._runner.run_short, list[bool]()

    def noted(*given: Any) -> Any:
        answer = run(*given)
        sufficed.append(answer[1])
        return answer

    monkeypatch.setattr(store._runner, "run_short", noted)
    for n in range(10):
        pair(f"task-{n}")
    assert sum(sufficed) == 10


def scripts(client: Any) -> int:
    said = client.info("commandstats")
    return sum(said.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))
