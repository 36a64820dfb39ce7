"""A caller dies between two calls of a hand-on: others try the line that one has woken which stood for it (H8).

A store in memory does all in one call. The sweeps of workers reap every few seconds.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from celery_semaphore.core.permit import Claim
from celery_semaphore.core.store import Store
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing.clock import Clock
from celery_semaphore.testing.conformance.acquisition import admitted, claim
from celery_semaphore.testing.conformance.grants import messages, reaped, released
from celery_semaphore.testing.conformance.moved_waits import of_disk
from celery_semaphore.testing.conformance.session_calls import S
from celery_semaphore.testing.conformance.standing_for import (
    line,
    one_stands_for_another,
    wait_in_turn,
)
from celery_semaphore.testing.conformance.suite import LEASE, TAKE_UP


class Died(Exception):
    """The caller is gone."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["valkey", "redis", "postgres"])
def store(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Any]:
    server = request.getfixturevalue(request.param)
    options = StoreOptions(now=clock, lease=LEASE, take_up=TAKE_UP)
    with closing(store_from_url(server.url, options)) as store:
        yield store


def die_in_release(store: Any, holder: str, claims: list[Claim], calls: int) -> None:
    """Release as a caller that dies before the next call to the server, after so many."""
    run, made = store._runner.run, list[str]()

    def counted(*given: Any) -> Any:
        if len(made) == calls:
            raise Died
        made.append(holder)
        return run(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._runner, "run", counted)
        with pytest.raises(Died):
            store.release(holder, claims)


def in_release(store: Store, clock: Clock) -> None:
    one_stands_for_another(store, clock)
    store.sleep(S)
    die_in_release(store, "unknown", of_disk(3), 1)


def in_its_second_call(store: Store, clock: Clock) -> None:
    """The first call lacks "disk", of the first in its line, and the second one "api"."""
    admitted(store, claim(of="net"), "h")
    one_stands_for_another(store, clock)
    wait_in_turn(store, clock, "n", claim(of="net") + of_disk(3, weight=3))
    store.sleep(S)
    die_in_release(store, "h", claim(of="net"), 2)


@pytest.mark.parametrize("goes_on", ["sweep", "another"])
@pytest.mark.parametrize("interrupted", [in_release, in_its_second_call])
def test_who_dies_between_them_is_made_up_for(
    store: Any, clock: Clock, interrupted: Callable[[Store, Clock], None], goes_on: str
) -> None:
    """Let a sweep go on, or another caller that releases."""
    interrupted(store, clock)
    assert line(store, "api") == ["c"]
    grants = reaped(store) if goes_on == "sweep" else released(store, "other", claim(2))
    assert messages(grants) == [b"c"]
