"""Session: kept messages begin when they are granted, and nobody is granted anything who would not take it up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from celery.worker import state

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.session import GRANT_S, HeldWait, SessionReply, Standing
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.core.wait_policy import OnSaturated, WaitPolicy
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.worker.keeping import pool_line, session as module
from celery_semaphore.worker.keeping.kept_message import KeptMessage
from celery_semaphore.worker.keeping.session import BUSY_S, Session
from tests.support.process import wait_until
from tests.worker.requests import kept_for

CLAIMS = (Claim("one", None, 1),)
LEASE = 30.0


class Clock:
    """Of the store and of the session."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    monotonic = __call__


class Request:
    """A fresh request that waits for a process, until it is accepted."""

    time_start: float | None = None
    granted = True


class Worker:
    """A session without its thread, and a loop that is always there."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.begun: list[str] = []
        self.tickets: dict[str, Ticket] = {}
        self.found: list[Any] = []
        self.processes = 1
        self.session = Session(
            store, self.in_loop, self.visit, self.found.append, processes=lambda: self.processes
        )
        self.requests: dict[str, Request] = {}
        self.reserves = True

    def in_loop(self, call: Callable[[], object]) -> object:
        return call()

    def visit(self) -> None:
        for kept in self.session.granted():
            self.session.discard(kept)
            assert kept.wait is not None
            request = Request()
            name = str(kept.request)  # in these tests a request is no more than its name
            self.requests[name] = request
            if self.reserves:
                state.reserved_requests.add(request)
            self.session.unstarted.add(kept.wait, cast("Any", request))
            self.begun.append(name)

    def refused(self, name: str, *, asleep: bool = False) -> KeptMessage:
        """Ask for a permit that is not free; the message is not kept yet."""
        how = Wait(Kind.REQUEUE, session="" if asleep else self.session.name)
        answer = self.store.acquire(CLAIMS, name, how)
        assert isinstance(answer, Refusal)
        assert answer.ticket
        self.tickets[name] = answer.ticket
        wait = HeldWait(self.tickets[name], CLAIMS)
        return kept_for(name, answer.ticket, 0.0, 0.0, 0.0, wait)

    def keep(
        self, kept: KeptMessage, *, made_at: float | None = None, turn: float = 1.0
    ) -> KeptMessage:
        assert kept.wait is not None
        now = self.clock.now
        self.session.add(kept, kept.wait, now + turn, now if made_at is None else made_at)
        return kept

    def takes_up(self, name: str) -> None:
        """The process acquires, with the ticket of the wait."""
        how = Wait(Kind.REQUEUE, self.tickets[name], session=self.session.name)
        assert isinstance(self.store.acquire(CLAIMS, f"{name} again", how), Permit)

    def reachable(self) -> list[str]:
        waiters = self.store.snapshot("one").waiters
        return [each.ticket.nonce for each in waiters if each.reachable]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for each in (module, pool_line):
        monkeypatch.setattr(each, "time", SimpleNamespace(monotonic=clock, sleep=lambda _: None))
    return clock


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    store = MemoryStore(StoreOptions(lease=LEASE, now=clock))
    assert isinstance(store.acquire(CLAIMS, "a"), Permit)
    return store


@pytest.fixture
def worker(store: MemoryStore, clock: Clock) -> Worker:
    worker = Worker(store, clock)
    worker.session.ask()
    clock.now += 0.1  # what is made from now on is made after it woke
    return worker


def test_it_is_granted_what_its_processes_can_begin(worker: Worker, store: MemoryStore) -> None:
    """Twice their number, and at least 16; a pool may grow. What it has no room for waits in line."""
    store.set_limit(0, "one")
    for n in range(30):
        worker.keep(worker.refused(f"w{n}"))
    store.set_limit(30, "one")
    worker.session.ask()
    assert len(worker.begun) == 16
    worker.processes = 10
    worker.session.ask()
    store.reap()
    worker.session.ask()
    assert len(worker.begun) == 20


def test_it_reaps_once_it_has_room_again(worker: Worker, store: MemoryStore) -> None:
    """What was passed over may stand in a line where no release comes; not after each grant that is taken up."""
    store.set_limit(0, "one")
    for n in range(30):
        worker.keep(worker.refused(f"w{n}"))
    store.set_limit(40, "one")
    worker.session.ask()
    worker.found.clear()
    for n, begun in enumerate(list(worker.begun)[:8], 1):
        worker.takes_up(begun)
        worker.session.ask()
        assert bool(worker.found) == (n == 8), n
    worker.session.ask()
    assert len(worker.begun) == 16 + 8


def test_what_is_granted_begins(worker: Worker, store: MemoryStore) -> None:
    """In the order of the line, one for each permit."""
    for name in "bc":
        worker.keep(worker.refused(name))
    worker.session.ask()
    assert worker.begun == []
    store.release("a", CLAIMS)
    worker.session.ask()
    assert worker.begun == ["b"]
    worker.session.ask()
    assert worker.begun == ["b"], "once"


def test_one_that_was_granted_before_it_is_kept_begins_when_it_is(
    worker: Worker, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its refusal was on its way through the pool. Not right there: with gevent that is in the task's own greenlet."""
    kept = worker.refused("b")
    store.release("a", CLAIMS)
    worker.session.ask()
    assert worker.begun == []
    worker.session._next_at = 0.0  # nothing that is expected would bring the next question forward
    rung: list[bool] = []
    monkeypatch.setattr(worker.session._event, "set", lambda: rung.append(True))
    worker.keep(kept)
    assert rung == [True]
    worker.session.ask()
    assert worker.begun == ["b"]


def test_of_two_messages_of_one_wait_both_begin(worker: Worker, store: MemoryStore) -> None:
    first = worker.keep(worker.refused("b"))
    worker.keep(kept_for("b too", first.ticket, 0.0, 0.0, 0.0, first.wait))
    store.release("a", CLAIMS)
    worker.session.ask()
    assert worker.begun == ["b", "b too"]


def test_one_that_is_kept_no_more_does_not_begin(worker: Worker, store: MemoryStore) -> None:
    worker.session.discard(worker.keep(worker.refused("b")))
    worker.session.discard(kept_for("no ticket", None, 0.0, 0.0, 0.0))
    store.release("a", CLAIMS)
    worker.session.ask()
    assert worker.begun == []


def test_a_refusal_after_its_grant_was_told_begins_nothing(
    worker: Worker, store: MemoryStore
) -> None:
    """The last answer told of a grant that has been taken up, or has ended, since."""
    worker.keep(worker.refused("b"))
    store.release("a", CLAIMS)
    worker.session.ask()
    worker.takes_up("b")
    kept = kept_for("b too", worker.tickets["b"], 0.0, 0.0, 0.0)
    kept.wait = HeldWait(worker.tickets["b"], CLAIMS)
    worker.keep(kept)
    worker.visit()
    worker.session.ask()
    assert worker.begun == ["b"]


# -- what the store lost sight of


def test_a_session_that_slept_names_what_it_keeps(worker: Worker, store: MemoryStore) -> None:
    worker.keep(worker.refused("b"))
    store.sleep(worker.session.name)
    store.release("a", CLAIMS)  # finds nobody
    assert worker.reachable() == []
    worker.session.ask()
    worker.session.ask()
    assert worker.begun == ["b"], "what is free was handed on"
    assert worker.found, "and what is to be sent is sent"


def test_one_that_was_refused_while_it_slept_is_named_when_it_arrives(
    worker: Worker, store: MemoryStore, clock: Clock
) -> None:
    """It names all as soon as it is awake, and this refusal is still on its way."""
    made_at = clock.now
    store.sleep(worker.session.name)
    late = worker.refused("b")
    clock.now += 0.1
    worker.session.ask()
    assert worker.reachable() == []
    worker.keep(late, made_at=made_at)
    worker.session.ask()
    assert worker.reachable() == ["b"]


def test_one_whose_refusal_took_long_is_named(
    worker: Worker, store: MemoryStore, clock: Clock
) -> None:
    """It was granted and its grant ended on the way; the session asked all the time."""
    made_at, late = clock.now, worker.refused("b")
    store.release("a", CLAIMS)
    for _ in range(5):
        clock.now += GRANT_S / 4
        worker.session.ask()
    store.reap()
    assert worker.reachable() == []
    worker.keep(late, made_at=made_at)
    worker.session.ask()
    worker.session.ask()
    assert worker.begun == ["b"]


def test_nothing_is_named_that_the_store_knows(
    worker: Worker, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would cost a call for each refusal. Once in a lease all are named, whatever was lost."""
    named: list[int] = []
    name = store.name

    def counted(session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
        named.append(len(waits))
        return name(session, waits)

    monkeypatch.setattr(store, "name", counted)
    for each in "bc":
        worker.keep(worker.refused(each))
        worker.session.ask()
    assert named == []
    worker.clock.now += LEASE - 1.0
    store.renew([])
    worker.session.ask()
    assert named == []
    worker.clock.now += 2.0
    worker.session.ask()
    assert named == [2]


def test_a_new_epoch_is_told_what_is_kept(worker: Worker, store: MemoryStore) -> None:
    """After a failover to a replica that lags, which knows the session, and not its last waits."""
    fails_over = store.remember()
    worker.keep(worker.refused("b"))
    fails_over()
    worker.session.ask()
    assert worker.reachable() == ["b"]


def test_a_new_epoch_is_logged_once(worker: Worker, store: MemoryStore, caplog: Any) -> None:
    worker.session.ask()
    assert not caplog.get_records("setup") + caplog.records
    store.forget()
    worker.session.ask()
    worker.session.ask()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().endswith(
        "forgotten permits: for up to 20 s after that it admits no task"
    )


def test_a_new_epoch_since_the_last_connection_is_logged(
    worker: Worker, store: MemoryStore, caplog: Any
) -> None:
    """The session before knew another epoch."""
    worker.session.epoch = 1
    worker.session.ask()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_new_epoch_is_told_what_is_kept_when_it_can_be(
    worker: Worker, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first attempt failed, and the next answer is of the same epoch."""
    worker.keep(worker.refused("b"))
    store.forget()

    def fail(*_: Any) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "name", fail)
        with pytest.raises(StoreUnavailable):
            worker.session.ask()
    worker.session.ask()
    assert worker.reachable() == ["b"]


def test_after_an_outage_all_are_named(
    worker: Worker, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: Any, clock: Clock
) -> None:
    """A grant may have ended meanwhile, for its answer was lost. It is told once."""
    worker.keep(worker.refused("b"))

    def ask() -> None:
        try:
            worker.session.ask()
        except StoreUnavailable as error:
            worker.session._failed(error)

    def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "ask", fail)
        ask()
        store.release("a", CLAIMS)
        clock.now += 0.1
        MemoryStore.ask(store, worker.session.name)  # its answer is lost
        clock.now += GRANT_S
        store.reap()
        ask()
    assert caplog.text.count("cannot ask for permits of waiting tasks, retrying: away") == 1
    with monkeypatch.context() as patch:
        patch.setattr(store, "name", fail)
        ask()
    assert worker.reachable() == []
    ask()
    ask()
    assert worker.begun == ["b"]


# -- grants that wait for a process


def test_a_grant_lasts_while_its_request_waits_for_a_process(
    worker: Worker, store: MemoryStore, clock: Clock
) -> None:
    worker.keep(worker.refused("b"))
    store.release("a", CLAIMS)
    worker.session.ask()
    clock.now += GRANT_S - 0.1
    worker.session.ask()
    clock.now += 0.2
    store.reap()
    (grant,) = store.snapshot("one").holders
    assert grant.granted


def the_next_begins_in_time(worker: Worker, store: MemoryStore, clock: Clock) -> None:
    """The grant of "b" lapses, though its session asks; "c" is granted a permit."""
    clock.now += GRANT_S - 0.1
    worker.session.ask()
    clock.now += 0.2
    store.reap()
    worker.session.ask()
    assert worker.begun == ["b", "c"]


def test_a_grant_of_a_request_that_ended_lapses(
    worker: Worker, store: MemoryStore, clock: Clock
) -> None:
    """It was revoked, or its process died before it asked; the next one's turn comes."""
    worker.reserves = False
    for name in "bc":
        worker.keep(worker.refused(name))
    store.release("a", CLAIMS)
    worker.session.ask()
    the_next_begins_in_time(worker, store, clock)


def test_a_grant_of_a_request_that_runs_lapses(
    worker: Worker, store: MemoryStore, clock: Clock
) -> None:
    """It asked for another key than before: what was granted is the next one's."""
    for name in "bc":
        worker.keep(worker.refused(name))
    store.release("a", CLAIMS)
    worker.session.ask()
    worker.requests["b"].granted = False  # its permit is noted
    the_next_begins_in_time(worker, store, clock)


def test_what_was_revoked_ends_while_the_store_is_away(
    worker: Worker, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Or no process is free: the loop is visited all the same."""
    visits: list[float] = []
    worker.session._visit = lambda: visits.append(clock.now)

    def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store, "ask", fail)
    for _ in range(3):
        clock.now += 1.0
        with pytest.raises(StoreUnavailable):
            worker.session.ask()
        worker.session._failed(StoreUnavailable("away"))
    assert len(visits) == 2


def test_a_session_sleeps_while_no_process_is_free(
    worker: Worker, store: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker may have one; the place of the wait is kept."""
    other = Worker(store, clock)
    other.session.ask()
    clock.now += 0.1
    for each, name in ((worker, "b"), (worker, "c"), (other, "d")):
        each.keep(each.refused(name))
    store.release("a", CLAIMS)
    worker.session.ask()
    asleep: list[str] = []
    sleep = store.sleep

    def noted(session: str) -> None:
        asleep.append(session)
        sleep(session)

    monkeypatch.setattr(store, "sleep", noted)
    for _ in range(2):
        clock.now += GRANT_S / 2 + 0.1
        pause, _ = worker.session.ask()
    worker.session.ask()
    assert (asleep, pause) == ([worker.session.name], BUSY_S)
    other.session.ask()
    clock.now += GRANT_S
    store.reap()
    other.session.ask()
    assert other.begun == ["d"]
    other.takes_up("d")
    worker.requests["b"].time_start = clock.now
    worker.session.ask()
    assert worker.reachable() == ["c"], "it asks again, and names what it keeps"


# -- when it asks


def test_it_asks_at_least_once_in_a_second_while_it_keeps_anything(
    worker: Worker, clock: Clock
) -> None:
    assert worker.session.ask()[0] == LEASE / 3
    worker.keep(worker.refused("b"), turn=100.0)
    pause, least = worker.session.ask()
    assert 0.0 < least < pause <= 1.0


def test_what_arrives_brings_the_next_question_forward(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """If it is expected sooner, or if nothing was kept before."""
    rung: list[bool] = []
    monkeypatch.setattr(worker.session._event, "set", lambda: rung.append(True))
    worker.session._next_at = clock.now + LEASE
    worker.keep(worker.refused("b"), turn=1000.0)
    assert rung == [True]
    worker.session._next_at = clock.now + 0.5
    worker.keep(worker.refused("c"), turn=100.0)
    assert rung == [True]
    worker.keep(worker.refused("d"), turn=1.0)
    assert rung == [True, True]


def test_what_arrives_during_a_question_counts_for_the_next(worker: Worker) -> None:
    def arrives() -> None:
        worker.session._visit = lambda: None
        worker.keep(worker.refused("b"), turn=0.0)

    worker.session._visit = arrives
    worker.clock.now += 1.0
    pause, least = worker.session.ask()
    assert pause == least


def test_what_a_release_granted_begins_once(worker: Worker, store: MemoryStore) -> None:
    """The last answer does not name it: when it is refused again and kept again, it waits for the next one."""
    kept = worker.keep(worker.refused("b"))
    own = worker.session.own(store.release("a", CLAIMS).granted)
    assert worker.session.messages(own) == [kept]
    worker.session.discard(kept)
    assert worker.session.messages(own) == []
    worker.keep(kept)
    assert list(worker.session.granted()) == []


def test_what_a_release_granted_to_another_worker_is_not_kept_here(worker: Worker) -> None:
    worker.keep(worker.refused("b"))
    assert worker.session.own(frozenset({"another worker's"})) == set()


def test_what_a_release_granted_while_its_refusal_was_on_its_way_is_asked_for_when_it_arrives(
    worker: Worker, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = worker.refused("b")
    assert worker.session.own(store.release("a", CLAIMS).granted) == set()
    worker.session._next_at = 0.0  # nothing that is expected would bring the next question forward
    rung: list[bool] = []
    monkeypatch.setattr(worker.session._event, "set", lambda: rung.append(True))
    worker.keep(kept)
    assert rung == [True]


def test_what_a_release_granted_does_not_begin_after_the_session_ended(
    worker: Worker, store: MemoryStore
) -> None:
    """The connection to the broker was lost while the call was queued for the loop."""
    worker.keep(worker.refused("b"))
    own = worker.session.own(store.release("a", CLAIMS).granted)
    worker.session.end()
    assert worker.session.messages(own) == []


def test_a_grant_brings_the_next_question_forward(
    worker: Worker, store: MemoryStore, clock: Clock
) -> None:
    """Permits were held for long, and those that have them now may not."""
    for name in "bcd":
        worker.keep(worker.refused(name), turn=0.0)
    worker.session.ask()
    clock.now += 20.0
    assert worker.session.ask()[0] == 1.0
    store.release("a", CLAIMS)
    worker.takes_up("b")
    store.release("b again", CLAIMS)
    assert worker.session.ask()[0] < 0.1
    assert worker.begun == ["c"]


def test_a_task_that_parks_has_no_session() -> None:
    """Its message will lie in the store; what is granted before that must not wait for a question."""
    decided = set(OnSaturated) - {OnSaturated.WAIT}  # its worker decides for one of the others
    asks = {each: WaitPolicy(each, 0.1, 1.0, None).wait(None, 0, "s", 60.0) for each in decided}
    assert {each: wait and wait.session for each, wait in asks.items()} == {
        OnSaturated.REQUEUE: "s",
        OnSaturated.PARK: "",
        OnSaturated.DROP: None,
        OnSaturated.FAIL: None,
    }


# -- its thread, on the real clock


@pytest.fixture
def loop() -> list[Callable[[], object]]:
    """Calls that the loop has not come to."""
    return []


@pytest.fixture
def running(loop: list[Callable[[], object]]) -> Iterator[tuple[Session, list[str]]]:
    store = MemoryStore(StoreOptions(lease=LEASE))
    asked: list[str] = []
    ask, sleep = store.ask, store.sleep

    def ask_noted(*args: Any, **how: Any) -> SessionReply:
        asked.append("asked")
        return ask(*args, **how)

    def sleep_noted(session: str) -> None:
        asked.append("asleep")
        sleep(session)

    store.ask = ask_noted  # type: ignore[method-assign]
    store.sleep = sleep_noted  # type: ignore[method-assign]
    session = Session(store, loop.append, lambda: None, lambda _: None)
    session.start()
    yield session, asked
    session.end()
    session.join(10)


def test_a_loop_that_hangs_asks_no_more(
    running: tuple[Session, list[str]], loop: list[Callable[[], object]]
) -> None:
    """The session falls asleep, as that of a stopped worker; and goes on with the loop."""
    session, asked = running
    wait_until(lambda: loop, 10)
    wait = HeldWait(Ticket("x", 0, 1795325987266815), CLAIMS)
    session.add(kept_for("x", wait.ticket, 0.0, 0.0, 0.0, wait), wait, 0.0, 0.0)
    session._thread.join(1.5)  # longer than between two questions
    assert asked == ["asked"]
    loop.pop()()
    wait_until(lambda: len(asked) > 1, 10)


def test_at_its_end_it_sleeps(
    running: tuple[Session, list[str]], loop: list[Callable[[], object]]
) -> None:
    """Also if the loop never comes again; and nothing begins after."""
    session, asked = running
    visited: list[bool] = []
    session._visit = lambda: visited.append(True)
    wait_until(lambda: loop, 10)
    wait = HeldWait(Ticket("x", 0, 1795325987266815), CLAIMS)
    session.add(kept_for("x", wait.ticket, 0.0, 0.0, 0.0, wait), wait, 0.0, 0.0)
    session._granted = {"x"}
    session.end()
    assert list(session.granted()) == []
    session.join(10)
    assert asked == ["asked", "asleep"]
    assert session._thread.join(0)
    loop.pop()()
    assert visited == []
