"""Asker: calls that wait hear of their grants, and nothing is asked for a process without one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from celery_semaphore import Semaphore
from celery_semaphore.core import asker, forecast
from celery_semaphore.core.asker import Asker, WaitingCall, asker_of
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.session import HeldWait, SessionReply
from celery_semaphore.core.signal_safe_event import SignalSafeEvent
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON, held_by, in_child, refusal_of, thread, waiting
from tests.support.process import wait_until

CLAIMS = (Claim("api", None, 1),)


class Questions:
    """Counts what a store is asked."""

    def __init__(self, store: MemoryStore) -> None:
        self.looked: list[int] = []
        self._ask = store.ask
        store.ask = self.ask  # type: ignore[method-assign]

    def ask(
        self, session: str, begun: Any = (), to_forecast: Any = (), *, room: int | None = None
    ) -> SessionReply:
        assert room is None, "each call has a thread of its own"
        self.looked.append(len(to_forecast))
        return self._ask(session, begun, to_forecast)


def is_notified(call: WaitingCall, timeout: float = 0.0) -> bool:
    """Return whether it is notified within this time, and clear that."""
    assert isinstance(call.notified, SignalSafeEvent)
    return call.notified.wait(timeout)


class Unheard:
    """The notice of a call whose event loop does not run."""

    unheard_since: float | None = None

    def set(self) -> None:
        self.unheard_since = self.unheard_since or time.monotonic()


class Heard(Unheard):
    """The notice of a call whose event loop runs."""

    def __init__(self) -> None:
        self.times = 0

    def set(self) -> None:
        self.times += 1


@pytest.fixture
def held(store: MemoryStore) -> Callable[[str], HeldWait]:
    def wait(holder: str) -> HeldWait:
        how = Wait(Kind.BLOCK, session=asker_of(store).session)
        ticket = refusal_of(store.acquire(CLAIMS, holder, how)).ticket
        assert ticket
        return HeldWait(ticket, CLAIMS, Kind.BLOCK)

    store.acquire(CLAIMS, "a")
    return wait


def test_a_call_is_called_when_it_was_granted(
    store: MemoryStore, held: Callable[[str], HeldWait]
) -> None:
    first, second = (asker_of(store).add(held(holder)) for holder in "bc")
    store.release("a", CLAIMS)
    assert is_notified(first, SOON)
    assert not is_notified(second)


def test_a_session_that_slept_calls_all(
    store: MemoryStore, held: Callable[[str], HeldWait]
) -> None:
    """They are in transit, and stand in line again by their next refusals."""
    both = [asker_of(store).add(held(holder)) for holder in "bc"]
    wait_until(lambda: not store.ask(asker_of(store).session).slept)
    assert not any(map(is_notified, both))
    store.sleep(asker_of(store).session)
    assert all(is_notified(each, SOON) for each in both)


def test_a_new_epoch_calls_all_once(store: MemoryStore, held: Callable[[str], HeldWait]) -> None:
    """No wait of an earlier epoch is granted a permit before it is refused again."""
    both = [asker_of(store).add(held(holder)) for holder in "bc"]
    asks = Questions(store)
    wait_until(lambda: asks.looked)
    assert not any(map(is_notified, both))
    store.remember()()
    assert all(is_notified(each, SOON) for each in both)
    asked = len(asks.looked)
    wait_until(lambda: len(asks.looked) > asked + 1)
    assert not any(map(is_notified, both))


def test_a_killed_session_delays_by_no_more_than_a_second(store: MemoryStore) -> None:
    api = Semaphore("api", 1, store=store, timeout=SOON)
    with api, thread(lambda: api.release(api.acquire())):
        wait_until(lambda: waiting(store) == 1)
        store.sleep(asker_of(store).session)
        since = time.monotonic()
        api.release(held_by(store))
    assert time.monotonic() - since < SOON / 2


def test_nothing_is_asked_where_nothing_waits(
    store: MemoryStore, held: Callable[[str], HeldWait], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asker, "IDLE_S", 0.05)
    asks, one = Questions(store), asker_of(store)
    wait = held("b")
    one.add(wait)
    wait_until(lambda: asks.looked)
    one.discard(wait.ticket)
    wait_until(lambda: one._thread is None)
    asked = len(asks.looked)
    one.add(wait)
    wait_until(lambda: len(asks.looked) > asked)


def test_it_ends_at_once_for_a_caller_that_leaves_no_thread(
    store: MemoryStore, held: Callable[[str], HeldWait]
) -> None:
    asks, one, threads = Questions(store), asker_of(store), {*threading.enumerate()}
    for _ in range(2):
        wait = held("b")
        one.add(wait)
        wait_until(lambda: asks.looked)
        one.discard(wait.ticket)
        one.end_if_idle()
        assert {*threading.enumerate()} <= threads
        asks.looked.clear()


def test_it_does_not_end_while_another_call_waits(
    store: MemoryStore, held: Callable[[str], HeldWait]
) -> None:
    one = asker_of(store)
    first, second = held("b"), held("c")
    one.add(first)
    waiting = one.add(second)
    one.discard(first.ticket)
    store.release(first.ticket.nonce, CLAIMS)
    one.end_if_idle()
    store.release("a", CLAIMS)
    assert is_notified(waiting, SOON)


def test_a_crowd_is_asked_for_together(
    store: MemoryStore, held: Callable[[str], HeldWait], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of eight waits each question wants to know their turns."""
    monkeypatch.setattr(forecast, "FASTEST_S", 0.5)
    asks, since = Questions(store), time.monotonic()
    for n in range(50):
        asker_of(store).add(held(f"{n}"))
    wait_until(lambda: 8 in asks.looked)
    assert len(asks.looked) <= 2 + (time.monotonic() - since) / 0.5
    assert max(asks.looked) == 8


def test_a_forked_child_has_a_session_of_its_own(store: MemoryStore) -> None:
    mine = asker_of(store).session
    assert asker_of(store).session == mine
    assert in_child(lambda: asker_of(store).session != mine)


def test_two_processes_of_one_host_have_two_names(store: MemoryStore) -> None:
    assert Asker(store).session != Asker(store).session


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asker, "UNHEARD_S", 0.1)


@pytest.mark.usefixtures("soon")
def test_a_call_that_does_not_hear_of_its_grant(
    store: MemoryStore, held: Callable[[str], HeldWait]
) -> None:
    """When that has ended, the calls that do not run are passed over together."""
    one, old, runs = asker_of(store), asker_of(store).session, Heard()
    waits = {holder: held(holder) for holder in "bcde"}
    for holder in "bcd":
        one.add(waits[holder], Unheard())
    last = waits["e"]
    one.add(last, runs)
    store.release("a", CLAIMS)
    wait_until(lambda: one.session != old)
    wait_until(lambda: runs.times, SOON, "it is to ask again")
    how = Wait(Kind.BLOCK, last.ticket, session=one.session)
    refusal_of(store.acquire(CLAIMS, "e", how))
    store.release(waits["b"].ticket, CLAIMS)
    (granted,) = store.snapshot("api").holders
    assert granted.holder == last.ticket.nonce


@pytest.mark.usefixtures("soon")
def test_a_call_that_hears_of_its_grant_is_one_that_runs(
    store: MemoryStore, held: Callable[[str], HeldWait]
) -> None:
    """Its acquire may take long. And what is unheard, but no grant, delays nothing."""
    asks, one, session = Questions(store), asker_of(store), asker_of(store).session
    first, second = Heard(), Unheard()
    one.add(held("b"), first)
    one.add(held("c"), second)
    second.set()
    store.release("a", CLAIMS)
    wait_until(lambda: first.times)
    asked, since = len(asks.looked), time.monotonic()
    time.sleep(1.0)
    assert one.session == session
    assert len(asks.looked) <= asked + 2 + (time.monotonic() - since) / forecast.FASTEST_S / 2


@pytest.mark.usefixtures("soon")
def test_it_takes_no_new_session_each_time(
    store: MemoryStore, held: Callable[[str], HeldWait]
) -> None:
    """All calls that run ask again then: no more often than they do anyway."""
    one, sessions, first = asker_of(store), {asker_of(store).session}, held("b")
    one.add(first, Unheard())
    store.release("a", CLAIMS)
    wait_until(lambda: one.session not in sessions)
    sessions.add(one.session)
    one.add(held("c"), Unheard())
    store.release(first.ticket, CLAIMS)
    time.sleep(0.5)
    assert one.session in sessions
    one._moves_at = 0.0
    wait_until(lambda: one.session not in sessions)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("error", [StoreUnavailable("gone"), ZeroDivisionError()])
def test_a_session_that_cannot_be_put_to_sleep(
    store: MemoryStore,
    held: Callable[[str], HeldWait],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    """It sleeps once the grant has ended; the calls that run are notified all the same."""

    def fails(_: str) -> None:
        raise error

    monkeypatch.setattr(store, "sleep", fails)
    one, runs = asker_of(store), Heard()
    one.add(held("b"), Unheard())
    one.add(held("c"), runs)
    store.release("a", CLAIMS)
    wait_until(lambda: runs.times)


@pytest.mark.usefixtures("soon")
def test_a_call_that_asks_while_the_session_changes(
    store: MemoryStore, held: Callable[[str], HeldWait], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the new one, and so wakes it before the first question; the others hear of that all the same."""
    one, old, runs, sleep = asker_of(store), asker_of(store).session, Heard(), store.sleep
    named = list[tuple[str, bool]]()

    def asks(session: str) -> None:
        named.append((session, session == one.session))
        sleep(session)
        store.acquire(CLAIMS, "d", Wait(Kind.BLOCK, session=one.session))

    monkeypatch.setattr(store, "sleep", asks)
    one.add(held("b"), Unheard())
    one.add(held("c"), runs)
    store.release("a", CLAIMS)
    wait_until(lambda: runs.times, SOON)
    assert named == [(old, False)], "no call wakes the old one"


@pytest.mark.usefixtures("soon")
def test_the_next_question_does_not_wait_for_its_time(
    store: MemoryStore, held: Callable[[str], HeldWait], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grant would have ended by then, and the next call that does not run have another one."""
    asks, one, old = Questions(store), asker_of(store), asker_of(store).session
    monkeypatch.setattr(one._forecast, "pause", lambda *_: (3 * SOON, 0.0))
    one.add(held("b"), Unheard())
    wait_until(lambda: asks.looked)
    time.sleep(0.1)
    store.release("a", CLAIMS)
    one.add(held("c"), Heard())  # the question that it brings forward tells of the grant
    wait_until(lambda: one.session != old, SOON)


def test_a_start_of_its_thread_that_was_interrupted(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call that waits makes up for it: else none of this process would hear of its grant."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if thread.name == "celery-semaphore-grants":
            monkeypatch.setattr(threading.Thread, "start", start)
            raise KeyboardInterrupt
        start(thread)

    api = Semaphore("api", 1, store=store, timeout=SOON)
    permit = api.acquire()
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        api.acquire()
    asked = Questions(store)
    with thread(lambda: api.release(api.acquire())):
        wait_until(lambda: asked.looked, SOON, "it is asked for")
        api.release(permit)
