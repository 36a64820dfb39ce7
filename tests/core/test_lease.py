"""The keeper: nobody is renewed too little, nobody is told too late, nobody is told twice."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pytest

from celery_semaphore.core.announcer import Announcer
from celery_semaphore.core.events import Event, PermitLostEvent, PermitRestoredEvent
from celery_semaphore.core.lease import LeaseKeeper
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.errors import SemaphoreError, StoreUnavailable
from celery_semaphore.testing import Clock
from tests.support.failing_store import FailingStore, permit


class Renewing:
    """The two calls of a store that a keeper makes, with answers that the test decides."""

    lease = 30.0

    def __init__(self) -> None:
        self.renewed: list[list[str]] = []
        self.answers: dict[str, Renewal] = {}
        self.fails = False
        self.poison: set[str] = set()  # holders of which the store makes an error of its own
        self.busy: set[str] = set()  # holders that it cannot look at now
        self.reaps_badly = False
        self.reaped = 0

    def renew(self, permits: Iterable[Permit]) -> dict[str, Renewal]:
        holders = [permit.holder for permit in permits]
        self.renewed.append(holders)
        if self.fails:
            raise StoreUnavailable("hung")
        if self.poison & set(holders):
            raise SemaphoreError("cannot take it")
        asked = [holder for holder in holders if holder not in self.busy]
        return {holder: self.answers.get(holder, Renewal.OK) for holder in asked}

    def reap(self, limit: int = 100) -> list[object]:
        if self.reaps_badly:
            raise ZeroDivisionError
        self.reaped += 1
        return []


@pytest.fixture
def store() -> Renewing:
    return Renewing()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def keeper(store: Renewing, clock: Clock, events: list[Event]) -> LeaseKeeper:
    announce = Announcer()
    announce.subscribe(events.append)
    keeper = LeaseKeeper(store, announce, store.reap, clock=clock)  # type: ignore[arg-type]
    keeper.tick()
    return keeper


def passes(keeper: LeaseKeeper, clock: Clock, seconds: float) -> None:
    for _ in range(int(seconds)):
        clock.now += 1
        keeper.tick()


def test_renews_nothing_for_a_process_that_is_gone(
    keeper: LeaseKeeper, store: Renewing, clock: Clock, events: list[Event]
) -> None:
    alive = {"a", "b"}

    def gone(holder: str) -> bool:
        return holder not in alive

    for holder in "ab":
        keeper.add(permit(holder), gone=partial(gone, holder))
    passes(keeper, clock, 10)
    alive.remove("a")
    passes(keeper, clock, 40)
    assert store.renewed == [[], ["a", "b"], ["b"], ["b"], ["b"], ["b"]]
    assert events == [], "nobody is left to whom it could be lost"


def test_renews_all_in_one_batch_three_times_per_lease(
    keeper: LeaseKeeper, store: Renewing, clock: Clock
) -> None:
    keeper.add(permit("a"))
    keeper.add(permit("b"))
    store.renewed.clear()
    passes(keeper, clock, 30)
    assert store.renewed == [["a", "b"]] * 3


def test_a_lost_permit_is_told_once_and_renewed_no_more(
    keeper: LeaseKeeper, store: Renewing, clock: Clock, events: list[Event]
) -> None:
    keeper.add(permit("a"))
    store.answers["a"] = Renewal.LOST
    passes(keeper, clock, 60)
    assert [type(event) for event in events] == [PermitLostEvent]
    assert store.renewed[-1] == []


def test_what_was_discarded_during_a_renewal_was_not_lost(
    keeper: LeaseKeeper, store: Renewing, clock: Clock, events: list[Event]
) -> None:
    keeper.add(permit("a"))
    answer = store.renew

    def released_meanwhile(permits: Iterable[Permit]) -> dict[str, Renewal]:
        answers = answer(permits)
        keeper.discard("a")
        return dict.fromkeys(answers, Renewal.LOST)

    store.renew = released_meanwhile  # type: ignore[method-assign]
    passes(keeper, clock, 11)
    assert events == []


def test_what_was_released_while_its_note_was_on_its_way_was_not_lost(
    keeper: LeaseKeeper, store: Renewing, clock: Clock, events: list[Event]
) -> None:
    """A task's own process releases first and tells the main process after."""
    keeper.add(permit("a"))
    store.answers["a"] = Renewal.LOST
    clock.now += 10
    keeper.tick()
    assert store.renewed[-1] == ["a"]
    clock.now += 0.5
    keeper.tick()
    keeper.discard("a")
    passes(keeper, clock, 30)
    assert events == []


def test_what_was_discarded_at_the_last_moment_was_not_lost(store: Renewing, clock: Clock) -> None:
    """By another thread, after the keeper has looked at what it keeps."""
    announce, events = Announcer(), list[Event]()
    keeper = LeaseKeeper(store, announce, clock=clock)  # type: ignore[arg-type]

    def told(event: Event) -> None:
        events.append(event)
        keeper.discard("b")

    announce.subscribe(told)
    for holder in "ab":
        keeper.add(permit(holder))
        store.answers[holder] = Renewal.LOST
    passes(keeper, clock, 60)
    assert len(events) == 1


def test_unrenewed_for_almost_a_lease_counts_as_lost(
    keeper: LeaseKeeper, store: Renewing, clock: Clock, events: list[Event]
) -> None:
    keeper.add(permit("a"))
    store.fails = True
    passes(keeper, clock, 26)
    assert events == []
    passes(keeper, clock, 3)
    assert [type(event) for event in events] == [PermitLostEvent]


def test_the_lease_counts_from_before_the_acquire_was_sent(
    keeper: LeaseKeeper, store: Renewing, clock: Clock, events: list[Event]
) -> None:
    keeper.add(permit("a"), since=clock.now - 20)
    store.fails = True
    passes(keeper, clock, 8)
    assert [type(event) for event in events] == [PermitLostEvent]


def test_goes_on_renewing_while_the_store_fails_and_recovers(
    keeper: LeaseKeeper, store: Renewing, clock: Clock, events: list[Event]
) -> None:
    keeper.add(permit("a"))
    store.fails = True
    passes(keeper, clock, 60)
    store.fails = False
    store.answers["a"] = Renewal.RESTORED
    passes(keeper, clock, 2)
    assert [type(event) for event in events] == [PermitLostEvent, PermitRestoredEvent]
    store.answers["a"] = Renewal.OK
    passes(keeper, clock, 25)
    assert len(events) == 2


def test_a_failing_store_is_asked_each_second_not_each_tick(
    keeper: LeaseKeeper, store: Renewing, clock: Clock
) -> None:
    keeper.add(permit("a"))
    store.fails = True
    passes(keeper, clock, 10)
    store.renewed.clear()
    for _ in range(100):
        clock.now += 0.1
        keeper.tick()
    assert 9 <= len(store.renewed) <= 11


def test_an_outage_is_told_once_and_so_is_its_end(
    keeper: LeaseKeeper, store: Renewing, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    keeper.add(permit("a"))
    for _ in range(2):
        store.fails = True
        passes(keeper, clock, 30)
        store.fails = False
        passes(keeper, clock, 30)
    begins = "permits (1) cannot be renewed, retrying until the store answers: hung"
    ends = "the store answers again, permits are renewed"
    assert caplog.messages == [begins, ends] * 2


def test_an_outage_is_not_told_without_permits(
    keeper: LeaseKeeper, store: Renewing, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store.fails = True
    passes(keeper, clock, 30)
    assert caplog.messages == []
    keeper.add(permit("a"))
    passes(keeper, clock, 10)
    assert len(caplog.messages) == 1


def test_one_that_the_store_refuses_costs_no_other_its_lease(
    store: Renewing, clock: Clock, keeper: LeaseKeeper, events: list[Event]
) -> None:
    for n in range(9):
        keeper.add(permit(f"h{n}"))
    store.poison = {"h3"}
    passes(keeper, clock, 3 * store.lease)
    assert [each.permit.holder for each in events if isinstance(each, PermitLostEvent)] == ["h3"]
    assert len(events) == 1
    asked = [len(holders) for holders in store.renewed]
    assert max(asked) == 9
    assert asked.count(1) <= 4 * asked.count(9)  # in halves, not one by one


def test_one_that_is_busy_is_asked_for_again_soon(
    store: Renewing, clock: Clock, keeper: LeaseKeeper, events: list[Event]
) -> None:
    """It is neither renewed nor lost, and costs no other its lease."""
    keeper.add(permit("a"))
    keeper.add(permit("b"))
    store.busy = {"b"}
    clock.now += store.lease / 3
    keeper.tick()
    asked = len(store.renewed)
    passes(keeper, clock, 3)
    assert len(store.renewed) >= asked + 2
    store.busy = set()
    passes(keeper, clock, 3 * store.lease)
    assert events == []
    store.busy = {"b"}
    passes(keeper, clock, store.lease)
    assert [each.permit.holder for each in events if isinstance(each, PermitLostEvent)] == ["b"]


def test_the_end_of_an_outage_is_not_told_of_a_store_that_was_not_asked(
    keeper: LeaseKeeper, store: Renewing, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a permit there is nothing to renew, and no store is called for it."""
    keeper.add(permit("a"))
    store.fails = True
    passes(keeper, clock, 10)
    keeper.discard("a")
    store.fails = False
    passes(keeper, clock, 30)
    assert len(caplog.messages) == 1
    keeper.add(permit("b"))
    passes(keeper, clock, 10)
    assert caplog.messages[1:] == ["the store answers again, permits are renewed"]


def test_it_reaps_after_each_renewal(keeper: LeaseKeeper, store: Renewing, clock: Clock) -> None:
    keeper.add(permit("a"))
    passes(keeper, clock, 30)
    assert store.reaped == len(store.renewed) == 4
    store.fails = True
    passes(keeper, clock, 30)
    assert store.reaped == 4


def test_reaping_that_fails_ends_no_renewals(
    store: Renewing, clock: Clock, keeper: LeaseKeeper, events: list[Event]
) -> None:
    keeper.add(permit("a"))
    store.reaps_badly = True
    passes(keeper, clock, 3 * store.lease)
    assert events == []


def test_a_renewal_counts_from_before_it_was_sent() -> None:
    """Its answer came late, and the store goes silent: the lease must not seem longer than it is."""
    clock, store, events = Clock(), FailingStore(), list[Event]()
    announce = Announcer()
    announce.subscribe(events.append)
    keeper = LeaseKeeper(store, announce, clock=clock)  # type: ignore[arg-type]

    def slow() -> None:
        clock.now += 15

    keeper.add(permit("a"))
    store.after_renew = slow
    keeper.tick()
    store.after_renew = lambda: None
    store.failures = 1
    clock.now += 11
    keeper.tick()
    assert events == []
    clock.now += 2
    keeper.tick()
    assert len(events) == 1


def test_a_lease_that_became_shorter_is_renewed_by_before_it_counts(
    store: Renewing, clock: Clock, keeper: LeaseKeeper, events: list[Event]
) -> None:
    """Another call of this process learns it: what was renewed for longer lasts longer, and is renewed at once."""
    store.lease = 300.0
    keeper.add(Permit("a", 1, (), 0.0, 300.0, 1))
    passes(keeper, clock, 100)
    asked = len(store.renewed)
    clock.now += 50
    store.lease, store.fails = 3.0, True
    keeper.tick()
    assert events == []
    store.fails = False
    passes(keeper, clock, 5)
    assert len(store.renewed) >= asked + 4
    assert events == []
    store.fails = True
    passes(keeper, clock, 3)
    assert len(events) == 1


def test_a_permit_with_a_shorter_lease_than_this_process_knows_is_renewed_in_time(
    store: Renewing, clock: Clock, keeper: LeaseKeeper, events: list[Event]
) -> None:
    """A pool process acquired it, and learnt the lease of the store by that."""
    keeper.add(Permit("a", 1, (), 100.0, 103.0, 1))
    passes(keeper, clock, 1)
    assert store.renewed[-1] == ["a"]
    store.fails = True
    passes(keeper, clock, 1)
    assert events == []
    store.fails = False
    asked = len(store.renewed)
    passes(keeper, clock, 9)
    assert len(store.renewed) == asked + 1  # from then on by the lease that it was renewed for
    assert events == []


def test_a_lease_that_became_longer_while_it_was_renewed_counts_from_the_next_renewal(
    store: Renewing, clock: Clock, keeper: LeaseKeeper, events: list[Event]
) -> None:
    """It is not known by which of both it was renewed."""
    keeper.add(permit("a"))
    renew = store.renew

    def renewed_meanwhile(permits: Iterable[Permit]) -> dict[str, Renewal]:
        answers = renew(permits)
        store.lease = 300.0
        return answers

    store.renew = renewed_meanwhile  # type: ignore[method-assign]
    passes(keeper, clock, 10)
    store.renew, store.fails = renew, True  # type: ignore[method-assign]
    passes(keeper, clock, 28)
    assert len(events) == 1


@pytest.mark.parametrize("ends", [100.0, 160.0], ids=["unknown", "longer"])
def test_a_permit_that_seems_to_last_otherwise_lasts_for_the_lease_of_the_store(
    store: Renewing, clock: Clock, keeper: LeaseKeeper, events: list[Event], ends: float
) -> None:
    """The store's lease was shortened meanwhile, or a note without times came from elsewhere."""
    keeper.add(Permit("a", 1, (), 100.0, ends, 1))
    store.fails = True
    passes(keeper, clock, 26)
    assert events == []
    passes(keeper, clock, 3)
    assert [type(event) for event in events] == [PermitLostEvent]


def test_a_store_of_a_short_lease_is_asked_again_within_its_grace(
    store: Renewing, clock: Clock, keeper: LeaseKeeper
) -> None:
    store.lease = 4.0  # a store that forgot everything admits newcomers two thirds of it later
    keeper.add(Permit("a", 1, (), 100.0, 104.0, 1))
    store.fails = True
    passes(keeper, clock, 3)
    store.renewed.clear()
    for _ in range(40):
        clock.now += 0.1
        keeper.tick()
    assert 8 <= len(store.renewed) <= 11


def test_a_store_that_answers_no_reap_is_asked_again_soon(
    store: Renewing, clock: Clock, keeper: LeaseKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs() -> None:
        raise StoreUnavailable("hung")

    monkeypatch.setattr(keeper, "_also", hangs)
    keeper.add(permit("a"))
    passes(keeper, clock, 11)
    store.renewed.clear()
    passes(keeper, clock, 5)
    assert len(store.renewed) >= 4


def test_what_the_store_lost_is_told_though_renewals_are_frequent(
    store: Renewing, clock: Clock, keeper: LeaseKeeper, events: list[Event]
) -> None:
    store.lease = 2.4  # a renewal comes before the loss is told
    keeper.add(Permit("a", 1, (), 100.0, 102.4, 1))
    store.answers["a"] = Renewal.LOST
    for _ in range(30):
        clock.now += 0.1
        keeper.tick()
    assert sum("a" in renewed for renewed in store.renewed) == 1
    assert [type(event) for event in events] == [PermitLostEvent]


def test_an_unrenewed_permit_that_the_store_lost_is_told_once(
    store: Renewing, clock: Clock, keeper: LeaseKeeper, events: list[Event]
) -> None:
    keeper.add(permit("a"))
    store.fails = True
    passes(keeper, clock, 30)
    store.fails, store.answers["a"] = False, Renewal.LOST
    passes(keeper, clock, 30)
    assert len(events) == 1


def test_a_lease_that_became_shorter_while_it_was_renewed_counts(
    store: Renewing, clock: Clock, keeper: LeaseKeeper, events: list[Event]
) -> None:
    renew = store.renew

    def learns(permits: Iterable[Permit]) -> dict[str, Renewal]:
        store.lease = 15.0
        return renew(permits)

    keeper.add(permit("a"))
    store.renew = learns  # type: ignore[method-assign]
    passes(keeper, clock, 10)
    assert store.renewed[-1] == ["a"]
    store.fails = True
    passes(keeper, clock, 15)
    assert [type(event) for event in events] == [PermitLostEvent]
