"""QueuedCalls: what threads take, in which order, and what they take together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty
from threading import Thread
from typing import Any

import pytest

from celery_semaphore.core.acquisition import Run
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.queued_calls import RELEASED, QueuedCall, QueuedCalls
from celery_semaphore.core.store import CALLED, Acquire, Release
from tests.support.calling import SOON
from tests.support.process import wait_until

AT_ONCE = 0.0  # without a wait


def claims(*keys: str) -> list[Claim]:
    return [Claim("export", key, 1) for key in keys]


def acquire(holder: str, *keys: str) -> Acquire:
    return Acquire(claims(*keys or "a"), holder)


def urgent(holder: str) -> QueuedCall:
    return QueuedCall(acquire(holder), None, urgent=True)


def release(holder: str, key: str = "a") -> Release:
    return Release(holder, claims(key))


def ask() -> None:
    """Ask the store for something else."""


def queue_of(*calls: Any, at_once: int = 4) -> QueuedCalls:
    queue = QueuedCalls(lambda: at_once)
    for what in calls:
        queue.put(what if isinstance(what, QueuedCall) else QueuedCall(what, None))
    return queue


def holders(calls: Sequence[QueuedCall]) -> list[Any]:
    return [getattr(call.what, "holder", "ask") for call in calls]


def all_taken(queue: QueuedCalls) -> list[list[Any]]:
    """Return the holders of all calls, as one thread after the other takes and makes them together."""
    taken = []
    while queue:
        taken.append(made(queue, AT_ONCE))
    return taken


def made(queue: QueuedCalls, timeout: float) -> list[Any]:
    if some := queue.take(timeout):
        queue.are_made(some)
    return holders(some)


def test_releases_come_first_and_then_what_is_urgent() -> None:
    """All others come in their order."""
    queue = queue_of(acquire("new"), Run(ask), urgent("granted"), release("over"))
    assert all_taken(queue) == [["over"], ["granted"], ["new"], ["ask"]]


def test_one_thread_takes_all_kinds_together() -> None:
    calls = [acquire("new"), urgent("granted"), release("over"), release("other", "b")]
    assert all_taken(queue_of(*calls, at_once=1)) == [["over", "other", "granted", "new"]]


@pytest.mark.parametrize("make", [acquire, release])
def test_one_thread_takes_not_too_many(make: Any) -> None:
    names = [str(n) for n in range(2 * CALLED + 1)]
    taken = all_taken(queue_of(*map(make, names), at_once=1))
    assert [len(some) for some in taken] == [CALLED, CALLED, 1]
    assert [name for some in taken for name in some] == names


def test_releases_of_one_key_are_taken_together() -> None:
    """But not too many, in their order, and those of no other key wait for the rest."""
    many = [str(n) for n in range(RELEASED + 1)]
    queue = queue_of(*map(release, many[:9]), release("x", "b"), *map(release, many[9:]))
    assert all_taken(queue) == [many[:RELEASED], ["x"], many[RELEASED:]]


def test_all_are_taken_at_once() -> None:
    queue = queue_of(acquire("new"), urgent("granted"), release("over"), release("other", "b"))
    assert holders(queue.take_all()) == ["over", "other", "granted", "new"]
    assert not queue


def test_it_waits_for_a_call() -> None:
    queue, taken = QueuedCalls(lambda: 4), list[list[QueuedCall]]()
    waiting = Thread(target=lambda: taken.append(queue.take(SOON)), daemon=True)
    waiting.start()
    queue.put(QueuedCall(release("a"), None))
    waiting.join(SOON)
    assert [holders(some) for some in taken] == [["a"]]


def test_it_waits_no_longer_than_it_is_told() -> None:
    with pytest.raises(Empty):
        QueuedCalls(lambda: 4).take(0.01)


@pytest.mark.parametrize("at_once", [1, 4])
def test_each_thread_takes_what_comes(at_once: int) -> None:
    """No call is forgotten, however the threads that take and those that put are interleaved."""
    queue, taken = QueuedCalls(lambda: at_once), list[str]()
    names = [str(n) for n in range(2000)]

    def take() -> None:
        while "the end" not in (some := made(queue, SOON)):
            taken.extend(some)

    def put(some: list[str]) -> None:
        for name in some:
            queue.put(QueuedCall(acquire(name), None))

    takers = [Thread(target=take, daemon=True) for _ in range(at_once)]
    threads = takers + [Thread(target=put, args=(names[n::2],)) for n in range(2)]
    for each in threads:
        each.start()
    wait_until(lambda: len(taken) == len(names), SOON / 2, "all are taken")
    for _ in takers:
        queue.put(QueuedCall(acquire("the end"), None))
        wait_until(lambda: not queue, SOON, "one thread ends")
    for each in threads:
        each.join(SOON)
    assert sorted(taken) == sorted(names)


def test_a_put_that_is_interrupted_keeps_no_later_call() -> None:
    """A signal handler may raise when the call is queued and no thread is woken."""
    queue = QueuedCalls(lambda: 4)
    queue._new.append(QueuedCall(acquire("interrupted"), None))
    queue.put(QueuedCall(acquire("next"), None))
    assert [holders(queue.take(AT_ONCE)) for _ in range(2)] == [["interrupted"], ["next"]]


class TestBusyResource:
    """Half of the threads wait for its row, and the others make the calls of other resources."""

    @staticmethod
    def taken(queue: QueuedCalls) -> list[QueuedCall]:
        """Take, and make nothing yet; what is left may have to wait for ``are_made``."""
        with suppress(Empty):
            return queue.take(AT_ONCE)
        return []

    @pytest.mark.parametrize("busy", [acquire, urgent])
    def test_other_calls_pass_it(self, busy: Any) -> None:
        queue = queue_of(*map(busy, "123"), acquire("other", "b"), Run(ask))
        taken = [holders(self.taken(queue)) for _ in range(5)]
        assert sorted(taken[:4]) == [["1"], ["2"], ["ask"], ["other"]]
        assert taken[4] == []

    def test_they_pass_its_releases(self) -> None:
        queue = queue_of(*[release(str(n)) for n in range(3 * RELEASED)], acquire("other", "b"))
        assert [len(self.taken(queue)) for _ in range(2)] == [RELEASED, RELEASED]
        assert [holders(self.taken(queue)) for _ in range(2)] == [["other"], []]

    def test_it_is_taken_again_once_they_are_made(self) -> None:
        queue = queue_of(*map(acquire, "1234"))
        first, second = self.taken(queue), self.taken(queue)
        for made_now, following in ((first, ["3"]), (second, ["4"])):
            assert not self.taken(queue)
            queue.are_made(made_now)
            assert holders(self.taken(queue)) == following

    def test_a_call_of_two_resources_waits_for_both(self) -> None:
        """And counts for both; one that is claimed twice counts once."""
        queue = queue_of(
            acquire("1", "a"), acquire("2", "a", "a"), acquire("3", "b", "a"), acquire("4", "b")
        )
        first, second = self.taken(queue), self.taken(queue)
        assert [holders(some) for some in (first, second)] == [["1"], ["2"]]
        assert [holders(self.taken(queue)) for _ in range(2)] == [["4"], []]
        queue.are_made(second)
        queue.put(QueuedCall(acquire("5", "b"), None))
        assert [holders(self.taken(queue)) for _ in range(2)] == [["3"], []]

    def test_all_that_were_busy_share_half_of_the_threads(self) -> None:
        """Until one of them is not."""
        queue = queue_of(*[acquire(key, key) for key in "abcde"], Run(ask))
        for _ in "abc":
            queue.are_made(self.taken(queue), busy=True)
        for key in "abc":
            queue.put(QueuedCall(acquire(f"{key} again", key), None))
        taken = [holders(self.taken(queue)) for _ in range(6)]
        assert taken == [["d"], ["e"], ["ask"], ["a again"], ["b again"], []]
        queue.are_made([QueuedCall(acquire("a again"), None)])
        queue.put(QueuedCall(acquire("a once more"), None))
        assert [holders(self.taken(queue)) for _ in range(3)] == [["c again"], ["a once more"], []]

    def test_a_renewal_is_a_call_of_its_resource(self) -> None:
        queue = queue_of(*[Run(ask, claims("a"))] * 3, acquire("other", "b"))
        assert [holders(self.taken(queue)) for _ in range(4)] == [["ask"], ["other"], ["ask"], []]

    def test_only_its_calls_are_taken_from_the_queue(self) -> None:
        """As the answer of one of them is that of all."""
        queue = queue_of(acquire("1"), release("2"), urgent("3"), acquire("other", "b"), Run(ask))
        (resource,) = (each.resource for each in claims("a"))
        assert holders(queue.take_all((resource,))) == ["2", "3", "1"]
        assert all_taken(queue) == [["other"], ["ask"]]


def test_each_resource_has_its_turn() -> None:
    """However many calls of another one are queued."""
    queue = queue_of(*map(acquire, "123"), acquire("x", "b"), acquire("4"), acquire("y", "c"))
    assert all_taken(queue) == [["1"], ["x"], ["y"], ["2"], ["3"], ["4"]]


class TestBegun:
    """Whether a call was made is known when its coroutine is cancelled."""

    @staticmethod
    def cancelled(what: Any, *, begun: bool) -> QueuedCall:
        loop = asyncio.new_event_loop()
        call = QueuedCall(what, loop.create_future())
        loop.close()
        if begun:
            assert call.begin()
        assert call.answer is not None
        call.answer.cancel()
        return call

    def test_what_was_cancelled_before_is_not_made(self) -> None:
        call = self.cancelled(acquire("a"), begun=False)
        assert call.is_dropped()
        assert not call.begin()

    def test_what_was_cancelled_later_is_made(self) -> None:
        assert not self.cancelled(acquire("a"), begun=True).is_dropped()

    def test_a_release_is_made_all_the_same(self) -> None:
        assert self.cancelled(release("a"), begun=False).begin()

    def test_a_call_that_is_not_cancelled_is_made(self) -> None:
        call = QueuedCall(release("a"), None)
        assert not call.is_dropped()
        assert call.begin()
