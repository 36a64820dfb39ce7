"""A caller hears of its grant."""

# ruff: noqa: PLR2004, S101 - asserting figures is what tests do

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from ...core.permit import Permit
from .calling import calling, calls, granted
from .crowd import Bodies
from .suite import LEASE, Suite, admitted, claim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.store import Store
    from ..clock import Clock

LONG = 30.0  # real seconds that no listener waits
in_time = pytest.mark.usefixtures("_in_time")  # not for the other tests of a store's suite


class Listening(Suite):
    """On the real clock; the store's own stands still. What ends a wait early ends it long before LONG."""

    @pytest.fixture
    def ticket(self, store: Store) -> str:
        admitted(store, claim(), "a")
        return calling(store, claim(), "b")

    @pytest.fixture
    def _in_time(self) -> Iterator[None]:
        start = time.monotonic()
        yield
        assert time.monotonic() - start < LONG / 2

    @in_time
    def test_hears_what_came_before_it_waits(self, store: Store, ticket: str) -> None:
        listener = store.listen(ticket)
        store.release("a", claim())
        listener.wait(LONG)
        listener.close()

    @in_time
    @pytest.mark.parametrize("how", ["release", "reap", "limit", "give up"])
    def test_hears_while_it_waits(self, store: Store, clock: Clock, ticket: str, how: str) -> None:
        behind = calling(store, claim(), "c")
        mine = behind if how == "give up" else ticket
        heard, waiting = Event(), Event()

        def wait() -> None:
            listener = store.listen(mine)
            waiting.set()
            while mine not in granted(store):
                listener.wait(LONG)
            listener.close()
            heard.set()

        thread = Thread(target=wait, daemon=True)
        thread.start()
        assert waiting.wait(LONG / 2)
        assert not heard.is_set()
        if how == "release":
            store.release("a", claim())
        elif how == "reap":
            clock.advance(LEASE)
            store.reap()
        elif how == "limit":
            store.set_limit(2, "api")
        else:
            store.release(ticket, claim())
            store.release("a", claim())
        assert heard.wait(LONG / 2)
        thread.join(LONG / 2)

    @in_time
    def test_a_wait_ends_without_a_call(self, store: Store, ticket: str) -> None:
        listener = store.listen(ticket)
        listener.wait(0.01)
        listener.close()
        assert granted(store) == []

    @in_time
    def test_who_hears_no_more_takes_nothing_along(self, store: Store, ticket: str) -> None:
        store.listen(ticket).close()
        listener = store.listen(ticket)
        store.release("a", claim())
        listener.wait(LONG)
        listener.close()
        admitted(store, claim(), "b", calls(ticket))

    @in_time
    def test_a_crowd_of_callers(self, store: Store) -> None:
        """Never above the limit, and everybody gets in."""
        bodies, wanted = Bodies(), claim(3)

        def call(n: int) -> None:
            answer = store.acquire(wanted, str(n), calls())
            listener = None
            while not isinstance(answer, Permit):
                assert answer.ticket
                if listener is None:
                    listener = store.listen(answer.ticket)
                else:
                    listener.wait(LONG)
                answer = store.acquire(wanted, str(n), calls(answer.ticket))
            with bodies.running(str(n)):
                pass
            store.release(str(n), wanted)
            if listener is not None:
                listener.close()

        with ThreadPoolExecutor(12) as crowd:
            list(crowd.map(call, range(200)))
        assert sorted(map(int, bodies.ran)) == list(range(200))
        assert bodies.most <= 3
        assert list(store.resources()) == []
