"""What becomes of a permit outside tasks: renewed, lost, given back, left alone by children."""

import os
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from celery_semaphore import PermitLost, Semaphore, SemaphoreTimeout
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.permit import Permit
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from tests.support.calling import SOON, in_child, occupied
from tests.support.process import wait_until


def keepers() -> set[threading.Thread]:
    """Return the threads that renew permits, of all stores."""
    return {each for each in threading.enumerate() if each.name == "celery-semaphore-leases"}


class TestEnds:
    def test_an_exception_in_the_body(self, api: Semaphore, store: MemoryStore) -> None:
        with pytest.raises(ZeroDivisionError), api:
            _ = 1 / (occupied(store) - 1)
        assert occupied(store) == 0

    def test_releasing_twice(self, store: MemoryStore) -> None:
        two = Semaphore("api", 2, store=store)
        first, second = two.acquire(), two.acquire()
        two.release(first)
        two.release(first)
        assert [held.holder for held in two.holders()] == [second.holder]

    def test_a_stranger_releases_nothing(self, api: Semaphore, store: MemoryStore) -> None:
        permit = store.acquire([Claim("api", None, 1)], "a")
        assert isinstance(permit, Permit)
        api.release(permit)
        assert occupied(store) == 1

    def test_another_object_of_the_same_store_may_release(
        self, api: Semaphore, store: MemoryStore
    ) -> None:
        Semaphore("api", 1, store=store).release(api.acquire())
        assert occupied(store) == 0

    def test_it_is_renewed(self) -> None:
        store = MemoryStore(StoreOptions(lease=0.3))
        api = Semaphore("api", 1, store=store)
        with api as permit:
            first = permit.expires_at
            wait_until(lambda: api.holders()[0].expires_at > first + 0.6)
            assert api.holders()[0].holder == permit.holder
        assert api.holders() == ()

    def test_what_is_overdue_ends_where_no_worker_sweeps(self) -> None:
        store, reaped = MemoryStore(StoreOptions(lease=0.3)), threading.Event()
        reap = store.reap

        def noted(limit: int = 100) -> Any:
            reaped.set()
            return reap(limit)

        store.reap = noted  # type: ignore[method-assign]
        with Semaphore("api", 1, store=store):
            assert reaped.wait(SOON)

    def test_one_keeper_renews_all_in_one_batch(self) -> None:
        class Batches(MemoryStore):
            batches: list[int] = []  # noqa: RUF012 - one object in this test

            def renew(self, permits: Any) -> Any:
                self.batches.append(len(list(permits)))
                return super().renew(permits)

        store = Batches(StoreOptions(lease=0.3))
        before = keepers()
        with (
            Semaphore("api", 1, store=store),
            Semaphore("disk", 2, store=store),
            Semaphore("disk", 2, store=store),
        ):
            assert len(keepers() - before) == 1
            wait_until(lambda: store.batches.count(3) > 2)
        assert held_permits_in(store)._keeper._kept == {}

    def test_extend(self, store: MemoryStore) -> None:
        api = Semaphore("api", 1, store=store)
        with api as permit:
            wait_until(lambda: store.snapshot("api").at > permit.acquired_at)
            api.extend(permit)
            assert api.holders()[0].expires_at > permit.expires_at
        with pytest.raises(PermitLost, match="does not hold"):
            api.extend(permit)

    def test_extending_what_is_lost(self, api: Semaphore, store: MemoryStore) -> None:
        with api as permit:
            store.release(permit.holder, permit.claims)  # as an operator would
            with pytest.raises(PermitLost, match="the lease ended"):
                api.extend(permit)

    def test_a_lost_permit_is_told_once(self, caplog: pytest.LogCaptureFixture) -> None:
        store, lost = MemoryStore(StoreOptions(lease=0.3)), list[Permit]()
        api = Semaphore("api", 2, store=store, on_lost=lost.append)
        with api as permit, api as other:
            store.release(permit.holder, permit.claims)
            wait_until(lambda: lost)
            expires = api.holders()[0].expires_at
            wait_until(lambda: api.holders()[0].expires_at > expires + 0.3)
            assert lost == [permit]
            assert api.holders()[0].holder == other.holder
        assert "lost its permit" in caplog.text

    def test_a_callback_that_hangs_holds_up_neither_renewals_nor_others(self) -> None:
        store, freed, told = MemoryStore(StoreOptions(lease=0.3)), threading.Event(), list[Permit]()
        hangs = Semaphore("api", 3, store=store, on_lost=lambda _: freed.wait(SOON))
        other = Semaphore("api", 3, store=store, on_lost=told.append)
        with hangs as first, other as second, other as third:
            store.release(first.holder, first.claims)
            wait_until(lambda: calls_of_on_lost() == 1)
            store.release(second.holder, second.claims)
            wait_until(lambda: told == [second])
            expires = api_expiry(other, third)
            wait_until(lambda: api_expiry(other, third) > expires + 0.6)
            freed.set()
        wait_until(lambda: calls_of_on_lost() == 0)

    def test_a_callback_that_fails_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        store = MemoryStore(StoreOptions(lease=0.3))
        with Semaphore("api", 1, store=store, on_lost=lambda _: 1 / 0) as permit:
            store.release(permit.holder, permit.claims)
            wait_until(lambda: f"on_lost failed for {permit.holder}" in caplog.text)
        assert "ZeroDivisionError" in caplog.text

    def test_what_was_given_back_is_not_lost(self) -> None:
        store, lost = MemoryStore(StoreOptions(lease=0.3)), list[Permit]()
        api = Semaphore("api", 1, store=store, on_lost=lost.append)
        permit = api.acquire()
        wait_until(lambda: api.holders()[0].expires_at > permit.expires_at)
        store.release(permit.holder, permit.claims)
        api.release(permit)
        with api as other:  # long enough for the keeper to have told it
            wait_until(lambda: api.holders()[0].expires_at > other.expires_at + 2)
        assert lost == []


def calls_of_on_lost() -> int:
    """How many threads are inside a callback."""
    return sum(each.name == "celery-semaphore-on-lost" for each in threading.enumerate())


def api_expiry(semaphore: Semaphore, permit: Permit) -> float:
    (held,) = [each for each in semaphore.holders() if each.holder == permit.holder]
    return held.expires_at


class TestAsking:
    def test_available(self, store: MemoryStore) -> None:
        api = Semaphore("api", 5, store=store, weight=2)
        assert api.available() == 5
        with api:
            assert api.available() == 3
            store.set_limit(1, "api")
            assert api.available() == 0

    def test_nothing_is_available_in_a_pause(self, store: MemoryStore) -> None:
        api = Semaphore("api", 5, store=store)
        with api:
            store.pause("api")
            assert api.available() == 0
            with pytest.raises(SemaphoreTimeout, match=r"paused, 1 in use, 0 waiting before it$"):
                api.acquire(timeout=0)
        store.resume("api")
        assert api.available() == 5

    def test_holders(self, store: MemoryStore) -> None:
        store.acquire([Claim("api", None, 5)], "a task")
        api = Semaphore("api", 5, store=store)
        with api as permit:
            assert [held.holder for held in api.holders()] == ["a task", permit.holder]
        assert str(os.getpid()) in permit.holder

    def test_asking_starts_no_thread(self, api: Semaphore) -> None:
        threads = threading.active_count()
        assert (api.available(), api.holders()) == (1, ())
        assert threading.active_count() == threads


class TestForks:
    def test_a_child_gives_nothing_back(self, api: Semaphore, store: MemoryStore) -> None:
        """Its copy of the books would show it."""

        def child() -> bool:
            try:
                api.release(permit)
                with pytest.raises(PermitLost):
                    api.extend(permit)
            finally:
                entered.close()
            return occupied(store) == 1

        with ExitStack() as entered:
            permit = entered.enter_context(api)
            assert in_child(child)
            assert occupied(store) == 1
        assert occupied(store) == 0

    def test_a_child_does_not_renew_its_parents(self) -> None:
        store = MemoryStore(StoreOptions(lease=0.3))
        two = Semaphore("api", 2, store=store, timeout=SOON)

        def child() -> bool:
            with two as mine:
                wait_until(lambda: two.holders()[-1].expires_at > mine.expires_at + 0.3)
                return [held.holder for held in two.holders()] == [mine.holder]

        with two:
            assert in_child(child)

    def test_a_child_forked_while_others_ask(self, store: MemoryStore) -> None:
        """The lock of the thread that renews was another thread's at the fork."""
        api = Semaphore("api", 1, store=store, timeout=SOON)
        api.release(api.acquire())
        with held_permits_in(store)._keeper._thread._starting:
            assert in_child(lambda: api.acquire(timeout=1).token > 0)
