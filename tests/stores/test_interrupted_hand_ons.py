"""A caller dies between two calls of a hand-on: the line is tried again by others (H7).

A store in memory does all in one call. The sweeps of workers reap every few seconds.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Reason
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing.clock import Clock
from tests.conformance.acquisition import admitted, claim, parked, why
from tests.conformance.grants import messages, reaped, released
from tests.conformance.suite import LEASE, TAKE_UP, UsedClock

BOTH = claim() + claim(of="disk")


class Died(Exception):
    """The caller is gone."""


@pytest.fixture
def clock() -> UsedClock:
    return UsedClock()


@pytest.fixture(params=["valkey", "redis", "postgres"])
def store(request: pytest.FixtureRequest, clock: UsedClock) -> Iterator[Any]:
    server = request.getfixturevalue(request.param)
    options = StoreOptions(now=clock, lease=LEASE, take_up=TAKE_UP)
    with closing(store_from_url(server.url, options)) as store:
        clock.store = store
        yield store


def die_in_release(store: Any, holder: str, claims: list[Claim], calls: int) -> None:
    """Release as a caller that dies before the next call to the server, after so many."""
    made = list[str]()

    def counted(run: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if len(made) == calls:
                raise Died
            made.append(holder)
            return run(*given, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for way in ("run", "run_short"):  # the second one on Redis only
            if run := getattr(store._runner, way, None):
                patch.setattr(store._runner, way, counted(run))
        with pytest.raises(Died):
            store.release(holder, claims)


@pytest.mark.parametrize("goes_on", ["sweep", "another"])
def test_who_dies_between_them_is_made_up_for(store: Any, clock: Clock, goes_on: str) -> None:
    """Let a sweep go on, or another caller that releases."""
    admitted(store, claim(), "a")
    parked(store, BOTH, "b")
    die_in_release(store, "a", claim(), 1)
    clock.advance(0.001)
    assert why(store, claim(), "newcomer") is Reason.SATURATED
    grants = reaped(store) if goes_on == "sweep" else released(store, "unknown", claim())
    assert messages(grants) == [b"b"]
