"""A store that fails while somebody waits for a permit."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from celery_semaphore import PermitLost, Semaphore, SemaphoreTimeout
from celery_semaphore.core import acquisition, outage
from celery_semaphore.core.blocking_waiter import BlockingWaiter
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.outage import QUIET_S, outage_of
from celery_semaphore.core.refusal import Answer, Reason, Refusal
from celery_semaphore.core.session import SessionReply
from celery_semaphore.core.store import HandedOn, Outgoing
from celery_semaphore.errors import ConfigurationError, SemaphoreError, StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing.clock import Clock
from tests.support.calling import (
    SOON,
    Asked,
    Failing,
    LostAnswers,
    occupied,
    refusal_of,
    thread,
    waiting,
)
from tests.support.process import wait_until


class TestFailingStore:
    """A store that fails is not a permit, and not the end either."""

    @pytest.fixture(autouse=True)
    def _hurry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(acquisition, "RETRY_DELAY_S", 0.02)

    def test_goes_on_trying(
        self, api: Semaphore, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        failing = Failing(store, times=5)
        permit = api.acquire()
        assert len(failing.waits) == 6
        assert occupied(store) == 1
        assert caplog.text.count("trying again") == 1
        api.release(permit)

    def test_within_its_timeout(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(acquisition, "RETRY_DELAY_S", 2 * SOON)
        Failing(store, times=10**6)
        start = time.monotonic()
        with pytest.raises(SemaphoreTimeout, match=r"0.2 s: gone") as caught:
            Semaphore("api", 1, store=store, timeout=0.2).acquire()
        assert isinstance(caught.value.__cause__, StoreUnavailable)
        assert time.monotonic() - start < SOON

    @pytest.mark.parametrize("timeout", [0, 0.05])
    def test_a_permit_whose_answer_was_lost_is_given_back(
        self, store: MemoryStore, timeout: float
    ) -> None:
        LostAnswers(store, times=10**6)
        with pytest.raises(SemaphoreTimeout):
            Semaphore("api", 1, store=store, timeout=timeout).acquire()
        wait_until(lambda: list(store.resources()) == [])

    def test_its_lease_counts_from_the_question_that_was_not_answered(
        self, store: MemoryStore
    ) -> None:
        before = time.monotonic()
        asked = LostAnswers(store, times=2)
        permit, since = BlockingWaiter(store, [Claim("api", None, 1)], SOON).acquire()
        assert before <= since <= asked.at[0]
        assert permit.holder == store.snapshot("api").holders[0].holder

    def test_its_lease_does_not_count_from_a_refusal(self, store: MemoryStore) -> None:
        claims, asked = [Claim("api", None, 1)], Asked(store)
        store.acquire(claims, "a")
        since: list[float] = []
        with thread(lambda: since.append(BlockingWaiter(store, claims, SOON).acquire()[1])):
            wait_until(lambda: len(asked.answers) == 2)
            store.release("a", claims)
        assert asked.at[1] < since[0] <= asked.at[2]

    def test_interrupted_while_it_asks(self, api: Semaphore, store: MemoryStore) -> None:
        """The store has said yes."""

        class Interrupted(Asked):
            def answered(self, answer: Answer) -> Answer:
                raise KeyboardInterrupt

        Interrupted(store)
        with pytest.raises(KeyboardInterrupt):
            api.acquire()
        assert list(store.resources()) == []

    def test_a_question_that_arrives_late_gets_no_permit(self, store: MemoryStore) -> None:
        """It was overtaken by the next one, which was refused, and nobody waits for its answer."""
        claims = [Claim("api", None, 1)]
        store.acquire(claims, "a")
        late: list[Callable[[], Answer]] = []

        class Overtaken(Asked):
            def acquire(self, *question: Any) -> Answer:
                if not late:
                    late.append(lambda: self._acquire(*question))
                    raise StoreUnavailable("gone")
                return super().acquire(*question)

        Overtaken(store)
        with pytest.raises(SemaphoreTimeout):
            Semaphore("api", 1, store=store, timeout=0.1).acquire()
        store.release("a", claims)
        assert refusal_of(late[0]()).reason is Reason.RELEASED
        assert list(store.resources()) == []

    def test_a_permit_whose_answer_was_lost_is_got_by_asking_again(
        self, api: Semaphore, store: MemoryStore
    ) -> None:
        LostAnswers(store, times=1)
        with api:
            assert occupied(store) == 1
        assert list(store.resources()) == []

    def test_a_ticket_whose_answer_was_lost_is_found(
        self, api: Semaphore, store: MemoryStore
    ) -> None:
        store.acquire([Claim("api", None, 1)], "a")
        asked = LostAnswers(store, times=3)
        with thread(lambda: api.release(api.acquire())):
            wait_until(lambda: len(asked.waits) >= 4)
            assert waiting(store) == 1
            store.release("a", [Claim("api", None, 1)])
        assert list(store.resources()) == []

    def test_a_holder_that_was_declared_dead_meanwhile(self, store: MemoryStore) -> None:
        """Admitted, but the answer was lost, and the store out of reach for longer than a lease."""
        claims = [Claim("api", None, 1)]

        class Dead(LostAnswers):
            def acquire(self, claims: Any, holder: str, *rest: Any) -> Answer:
                try:
                    return super().acquire(claims, holder, *rest)
                except StoreUnavailable:
                    store.release(holder, claims)
                    raise

        Dead(store, times=1)
        with Semaphore("api", 1, store=store, timeout=SOON) as permit:
            assert permit.claims == tuple(claims)

    def test_a_holder_that_its_caller_named_is_left_to_the_caller(self, store: MemoryStore) -> None:
        """Which releases it in any case. A name that was dead is replaced, and the waiter's own."""
        claims = [Claim("api", None, 1)]

        def end(answer: object) -> None:
            if isinstance(answer, StoreUnavailable):
                raise answer

        LostAnswers(store, times=1)
        waiter = BlockingWaiter(store, claims, SOON, on_answer=end, holder="mine")
        with pytest.raises(StoreUnavailable):
            waiter.acquire()
        waiter.give_up()
        assert [held.holder for held in store.snapshot("api").holders] == ["mine"]
        store.release("mine", claims)
        permit, _ = BlockingWaiter(store, claims, SOON, on_answer=end, holder="mine").acquire()
        assert permit.holder != "mine"
        store.release(permit.holder, claims)

        class Later(LostAnswers):
            def answered(self, answer: Answer) -> Answer:
                return answer if isinstance(answer, Refusal) else super().answered(answer)

        Later(store, times=1)
        waiter = BlockingWaiter(store, claims, SOON, on_answer=end, holder="mine")
        with pytest.raises(StoreUnavailable):
            waiter.acquire()
        waiter.give_up()
        assert occupied(store) == 0

    def test_questions_may_fail(
        self, api: Semaphore, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is said once, and asked again: also after the grant has ended meanwhile."""
        ask, failures = store.ask, iter([StoreUnavailable("gone")] * 4)

        def fail(*args: Any, **kwargs: Any) -> SessionReply:
            if error := next(failures, None):
                raise error
            return ask(*args, **kwargs)

        store.ask = fail  # type: ignore[method-assign]
        store.acquire(
            [Claim("api", None, 1)], "of another process"
        )  # its release tells nothing here
        with thread(lambda: api.release(api.acquire())):
            wait_until(lambda: waiting(store) == 1)
            store.release("of another process", [Claim("api", None, 1)])
        assert list(store.resources()) == []
        assert caplog.text.count("cannot ask for grants, retrying: gone") == 1

    def test_a_release_that_fails_is_repeated(
        self,
        api: Semaphore,
        store: MemoryStore,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(outage, "QUIET_S", 0.1)
        release, failures = (
            store.release,
            iter([StoreUnavailable("gone"), StoreUnavailable("gone")]),
        )

        def fail(*args: Any) -> HandedOn:
            if error := next(failures, None):
                raise error
            return release(*args)

        def reap(*_: Any) -> Outgoing:
            raise StoreUnavailable("the thread that renews must not notice the end first")

        with api as permit:
            store.reap = reap  # type: ignore[assignment,method-assign]
            store.release = fail  # type: ignore[assignment,method-assign]
        assert f"{permit.holder} is not released yet" in caplog.text
        with pytest.raises(PermitLost):  # nor is it renewed any more
            api.extend(permit)
        wait_until(lambda: list(store.resources()) == [])
        wait_until(lambda: caplog.text.count("the store answers again") == 1)

    def test_an_outage_that_a_call_gave_up_in_ends(
        self,
        api: Semaphore,
        store: MemoryStore,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        clock = Clock()
        monkeypatch.setattr(outage, "monotonic", clock)
        failing, release = Failing(store, times=10**6), store.release

        def fail(*given: Any) -> HandedOn:
            if failing.times > 0:
                raise StoreUnavailable("gone")
            return release(*given)

        store.release = fail  # type: ignore[assignment,method-assign]
        for _ in range(3):
            with pytest.raises(SemaphoreTimeout):
                api.acquire(timeout=0.05)
        assert caplog.text.count("trying again") == 1
        failing.times = 0
        held_permits_in(store)._releaser.flush(SOON)  # it fails no more
        clock.advance(QUIET_S)
        for _ in range(2):
            with api:
                assert caplog.text.count("the store answers again") == 1

    def test_one_that_asks_once_tries_no_more(
        self, api: Semaphore, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Its caller is told; a line that it tries again would be false."""
        Failing(store, times=1)
        with pytest.raises(SemaphoreTimeout, match="gone"):
            api.acquire(timeout=0)
        assert "trying again" not in caplog.text

    def test_an_outage_of_releases_only(
        self,
        store: MemoryStore,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Those of one resource fail, as its lock is taken; calls at another one are answered all the time."""
        monkeypatch.setattr("celery_semaphore.core.releaser.RETRY_PAUSE_S", 0.01)
        clock, failed, release = Clock(), list[str](), store.release
        monkeypatch.setattr(outage, "monotonic", clock)
        bad, good = Semaphore("bad", 9, store=store), Semaphore("good", 9, store=store)

        def fail(holder: str, claims: Any, *given: Any) -> HandedOn:
            if claims[0].semaphore == "bad":
                failed.append(holder)
                raise StoreUnavailable("locked")
            return release(holder, claims, *given)

        store.release = fail  # type: ignore[assignment,method-assign]
        for permit in [bad.acquire() for _ in range(2)]:
            bad.release(permit)
            for _ in range(2):  # longer than QUIET_S without a call that fails
                clock.advance(QUIET_S - 1)
                failed.clear()
                wait_until(lambda: len(failed) > 1)
                with good:
                    pass
        lines = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        assert len(lines) == 1, lines
        assert "is not released yet" in lines[0]

    def test_the_renewals_of_a_process_notice_the_end(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may make no other call for long."""
        monkeypatch.setattr(outage, "QUIET_S", 0.1)
        store = MemoryStore(StoreOptions(lease=3.0))
        with Semaphore("api", 1, store=store):
            outage_of(store).failed("gone")
            wait_until(lambda: "the store answers again" in caplog.text, SOON)
        held_permits_in(store).close()

    def test_the_release_of_a_call_without_an_answer_keeps_no_caller_waiting(
        self, store: MemoryStore
    ) -> None:
        """The store hangs: the caller has waited for it once."""
        release, calling, go_on = store.release, threading.Event(), threading.Event()

        def hang(*args: Any) -> HandedOn:
            calling.set()
            assert go_on.wait(SOON)
            return release(*args)

        LostAnswers(store, times=10**6)
        store.release = hang  # type: ignore[assignment,method-assign]
        with pytest.raises(SemaphoreTimeout):
            Semaphore("api", 1, store=store, timeout=0).acquire()
        assert calling.wait(SOON)
        go_on.set()
        wait_until(lambda: list(store.resources()) == [])

    def test_an_error_while_it_gives_up_replaces_no_other(
        self, api: Semaphore, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Interrupted(Asked):
            def answered(self, answer: Answer) -> Answer:
                raise KeyboardInterrupt

        def fail(*_: Any) -> Outgoing:
            raise SemaphoreError("WRONGTYPE")

        Interrupted(store)
        store.release = fail  # type: ignore[assignment,method-assign]
        with pytest.raises(KeyboardInterrupt):
            api.acquire()
        assert "was not released, its lease ends: WRONGTYPE" in caplog.text

    def test_a_process_that_starts_no_thread(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It ends, for instance; the next call of another process may start one."""
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        lost = LostAnswers(store, times=10**6)
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(SemaphoreTimeout):
            Semaphore("api", 1, store=store, timeout=0).acquire()
        assert "can't start new thread" in caplog.text
        monkeypatch.setattr(threading.Thread, "start", start)
        with pytest.raises(SemaphoreTimeout):
            Semaphore("api", 1, store=store, timeout=0).acquire()
        wait_until(lambda: list(store.resources()) == [])
        assert len(lost.at) == 2

    def test_a_store_that_could_not_be_checked_is_not_released(self, store: MemoryStore) -> None:
        def check(**_: Any) -> list[str]:
            raise StoreUnavailable("gone")

        released: list[Any] = []
        store.check = check  # type: ignore[method-assign]
        store.release = lambda *given: released.append(given)  # type: ignore[assignment,method-assign]
        with pytest.raises(SemaphoreTimeout):
            Semaphore("api", 1, store=store, timeout=0.05).acquire()
        assert not released
        assert held_permits_in(store)._releaser._thread._thread is None

    def test_a_store_that_must_not_be_used(self, api: Semaphore, store: MemoryStore) -> None:
        def check(**_: Any) -> list[str]:
            raise ConfigurationError("evicts permits")

        store.check = check  # type: ignore[method-assign]
        with pytest.raises(ConfigurationError, match="evicts"), api:
            pass

    def test_a_store_is_checked_once(
        self, api: Semaphore, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        store.check = lambda **_: ["forbids INFO"]  # type: ignore[method-assign]
        for _ in range(3):
            with api:
                pass
        assert caplog.text.count("forbids INFO") == 1
