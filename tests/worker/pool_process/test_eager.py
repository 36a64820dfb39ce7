"""Eager runs: they leave nothing behind, and do not wait for the run that they are part of."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from celery import Celery, chord
from celery.signals import task_postrun

from celery_semaphore import (
    Limit,
    LimitedTask,
    PermitLost,
    SemaphoreError,
    SemaphoreSaturated,
    SemaphoreTimeout,
    permit_acquired,
)
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.key import resource_name
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Answer, Reason
from celery_semaphore.core.store import Outgoing, Store
from celery_semaphore.core.ticket import DEFAULT_PRIORITY
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.pool_process.permit import TaskPermit
from tests.conftest import StartServer
from tests.support.calling import Asked, in_child, thread
from tests.support.process import wait_until

from ..conftest import Site
from ..messages.test_parking import done

ONE = Claim("one", None, 1)


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("eager", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.update(
        semaphore_url="memory://",
        task_always_eager=True,
        task_eager_propagates=True,
        semaphore_eager_timeout=20,  # a run that waits for itself lasts so long
    )
    yield app
    limiter_of(app).process.store.close()


@pytest.fixture(params=["memory", "valkey", "postgres"])
def any_app(app: Celery, request: pytest.FixtureRequest) -> Celery:
    """An app whose permits are kept in each kind of store."""
    if request.param != "memory":
        app.conf.semaphore_url = request.getfixturevalue(request.param).url
    return app


def task(app: Celery, body: Callable[..., Any], **options: Any) -> Any:
    options = {"semaphore": "one", "limit": 1, "name": body.__name__, **options}
    body.__name__ = options["name"]  # Celery compiles it, also that of a lambda
    return app.task(base=LimitedTask, bind=True, shared=False, **options)(body)


def store_of(app: Celery) -> Store:
    return limiter_of(app).process.store


def memory_of(app: Celery) -> MemoryStore:
    store = store_of(app)
    assert isinstance(store, MemoryStore)
    return store


def permit_of(task: LimitedTask) -> TaskPermit:
    assert task.permit is not None
    return task.permit


def occupied(app: Celery, semaphore: str = "one") -> int:
    return store_of(app).snapshot(semaphore).occupied


class TestLeavesNothing:
    def test_no_thread_stays(self, any_app: Celery) -> None:
        body = task(any_app, lambda self: occupied(any_app), name="body")
        before = {*threading.enumerate()}
        assert [body.apply().get() for _ in range(3)] == [1, 1, 1]
        assert {*threading.enumerate()} <= before
        assert occupied(any_app) == 0

    def test_no_thread_stays_of_one_that_fails_or_gets_no_permit(self, app: Celery) -> None:
        app.conf.semaphore_eager_timeout = 0.1
        fails = task(app, lambda self: 1 / 0, name="fails")
        before = {*threading.enumerate()}
        with pytest.raises(ZeroDivisionError):
            fails.apply()
        store_of(app).acquire([ONE], "other")
        with pytest.raises(SemaphoreTimeout):
            fails.apply()
        store_of(app).release("other", [ONE])
        assert {*threading.enumerate()} <= before
        assert occupied(app) == 0

    def test_it_is_renewed_while_it_runs(self, app: Celery) -> None:
        app.conf.semaphore_lease = 1.0

        def body(self: LimitedTask) -> None:
            def expires() -> float:
                return store_of(app).snapshot("one").holders[0].expires_at

            first = expires()
            wait_until(lambda: expires() > first + 1.0)

        task(app, body).apply()

    def test_what_is_overdue_ends_while_it_runs(self, app: Celery) -> None:
        """No worker may be there that sweeps."""
        app.conf.semaphore_lease = 1.0
        reaped = threading.Event()
        reap = store_of(app).reap

        def noted(limit: int = 100) -> Outgoing:
            reaped.set()
            return reap(limit)

        store_of(app).reap = noted  # type: ignore[method-assign]
        assert task(app, lambda self: reaped.wait(10), name="body").apply().get()

    def test_a_store_that_fails_at_the_end(
        self, app: Celery, start_valkey: StartServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = start_valkey()
        app.conf.update(semaphore_url=server.url, semaphore_timeout=0.2)
        before = {*threading.enumerate()}
        body = task(app, lambda self: server.kill(), name="body")
        assert body.apply().state == "SUCCESS"
        assert "was not released, its lease ends" in caplog.text
        assert {*threading.enumerate()} <= before


class TestWaits:
    def test_it_stands_in_line(self, any_app: Celery) -> None:
        """A wait that came later is not granted its permit, although its session asks."""
        store, seen = store_of(any_app), threading.Event()
        store.acquire([ONE], "other")
        eager = task(any_app, lambda self: seen.wait(20), name="eager")
        store.ask("s")
        with thread(eager.apply):
            wait_until(lambda: store.snapshot("one").waiting == 1)
            wait = Wait(Kind.BLOCK, priority=DEFAULT_PRIORITY, session="s")
            store.acquire([ONE], "later", wait)
            store.release("other", [ONE])
            assert not store.ask("s").granted
            seen.set()
            wait_until(lambda: store.ask("s").granted)
        store.release("later", [ONE])

    def test_no_thread_stays_of_one_that_waited(self, any_app: Celery) -> None:
        store, before = store_of(any_app), {*threading.enumerate()}
        store.acquire([ONE], "other")
        later = threading.Timer(0.3, store.release, ["other", [ONE]])
        later.start()
        assert task(any_app, lambda self: 7, name="body").apply().get() == 7
        later.join()
        assert {*threading.enumerate()} <= before

    def test_one_that_gets_no_permit_leaves_the_line(self, any_app: Celery) -> None:
        any_app.conf.semaphore_eager_timeout = 0.3
        store, before = store_of(any_app), {*threading.enumerate()}
        store.acquire([ONE], "other")
        with pytest.raises(SemaphoreTimeout, match="semaphore_eager_timeout"):
            task(any_app, lambda self: None, name="body").apply()
        seen = store.snapshot("one")
        assert (seen.occupied, seen.waiting) == (1, 0)
        assert {*threading.enumerate()} <= before
        store.release("other", [ONE])

    def test_asked_once_it_is_never_in_line(self, app: Celery) -> None:
        app.conf.semaphore_eager_timeout = 0
        asked = Asked(memory_of(app))
        store_of(app).acquire([ONE], "other")
        with pytest.raises(SemaphoreTimeout):
            task(app, lambda self: None, name="body").apply()
        assert asked.waits == [None, None]

    def test_a_store_that_is_away_is_not_waited_for(
        self, app: Celery, start_valkey: StartServer
    ) -> None:
        server = start_valkey()
        app.conf.update(semaphore_url=server.url, semaphore_timeout=0.2)
        server.kill()
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            task(app, lambda self: None, name="body").apply()
        assert time.monotonic() - began < 10

    def test_recovery_is_waited_for_under_any_policy(self, app: Celery) -> None:
        """And it asks each second: no worker may be there that hands on what the grace leaves."""
        store = memory_of(app)
        store.acquire([ONE], "other")

        class Recovering(Asked):
            def answered(self, answer: Answer) -> Answer:
                if isinstance(answer, Permit):
                    return answer
                store.release("other", [ONE])
                return replace(answer, reason=Reason.RECOVERING)

        asked = Recovering(store)
        assert task(app, lambda self: 7, name="body", on_saturated="fail").apply().get() == 7
        assert [wait and wait.longest for wait in asked.waits] == [1.0, 1.0]


class TestPartOfAnother:
    """Each of these waits for itself where the inner run asks for a permit of its own."""

    def test_chain_inside_a_task(self, any_app: Celery) -> None:
        add = task(any_app, lambda self, x, y: x + y, name="add")
        outer = task(any_app, lambda self: (add.s(1, 2) | add.s(3)).apply_async().result, name="o")
        assert outer.delay().result == 6
        assert occupied(any_app) == 0

    def test_chord_inside_a_task(self, app: Celery) -> None:
        add = task(app, lambda self, x, y: x + y, name="add")
        total = task(app, lambda self, numbers: sum(numbers), name="total")

        def outer(self: LimitedTask) -> int:
            number: int = chord([add.s(1, 2), add.s(3, 4)], app=app)(total.s()).result
            return number

        assert task(app, outer).delay().result == 10
        assert occupied(app) == 0

    def test_a_task_inside_itself(self, app: Celery) -> None:
        def factorial(self: LimitedTask, n: int) -> int:
            assert occupied(app) == 1
            number: int = n * self.apply((n - 1,)).result if n else 1
            return number

        assert task(app, factorial).apply((5,)).result == 120

    def test_within_a_task_without_limit_inside_one(self, app: Celery) -> None:
        inner = task(app, lambda self: 7, name="inner")

        def run_inner() -> int:
            number: int = inner.apply().result
            return number

        free = app.task(name="free", shared=False)(run_inner)
        assert task(app, lambda self: free.apply().result, name="outer").apply().result == 7

    def test_a_callback_of_a_task(self, app: Celery) -> None:
        """Celery calls it before the task has ended."""
        seen: list[int] = []
        told = task(app, lambda self, result: seen.append(result), name="told")
        task(app, lambda self: 3, name="tells").apply_async(link=told.s())
        assert seen == [3]

    def test_a_retry(self, app: Celery) -> None:
        def again(self: LimitedTask) -> int:
            if self.request.retries < 2:
                raise self.retry(countdown=0)
            return int(self.request.retries)

        app.conf.task_eager_propagates = False
        assert task(app, again).apply().get() == 2
        assert occupied(app) == 0

    @pytest.mark.parametrize("pool", ["prefork", "threads"])
    def test_in_a_worker(self, site: Site, pool: str) -> None:
        worker = site.start(pool=pool, concurrency=3)
        results = [site.send("nested") for _ in range(6)]
        done(results)
        assert [result.get() for result in results] == [["SUCCESS", 3]] * 6
        assert site.counter.stats("nested")["max_inside"] == 1
        site.wait_all_back(ONE, 5)
        assert "goes on" not in worker.log()


class TestWhatCovers:
    def test_the_permit_of_the_outer_run(self, app: Celery) -> None:
        def inner(self: LimitedTask) -> tuple[int, str]:
            permit_of(self).check()
            return permit_of(self).token, permit_of(self).holder

        covered = task(app, inner)

        def outer(self: LimitedTask) -> None:
            assert covered.apply().result == (permit_of(self).token, permit_of(self).holder)

        acquired: list[Permit] = []
        permit_acquired.connect(hear := lambda permit, **_: acquired.append(permit))
        task(app, outer).apply()
        permit_acquired.disconnect(hear)
        assert len(acquired) == 1

    def test_one_that_is_lost_meanwhile(self, app: Celery) -> None:
        """The inner run goes on as the outer one does, and its check tells."""

        def inner(self: LimitedTask, outer: str) -> str:
            permit_of(self).check()
            store_of(app).release(outer, [ONE])
            with pytest.raises(PermitLost, match=outer):
                permit_of(self).check()
            return "went on"

        covered = task(app, inner)
        outer = task(app, lambda self: covered.apply((self.permit.holder,)).result, name="outer")
        assert outer.apply().result == "went on"

    def test_a_larger_weight_asks_for_the_difference(self, app: Celery) -> None:
        def inner(self: LimitedTask, outer: str) -> int:
            store_of(app).release(outer, [ONE])
            with pytest.raises(PermitLost, match=outer):
                permit_of(self).check()
            return 0

        heavy = task(app, lambda self: occupied(app), name="heavy", limit=3, weight=3)
        lost = task(app, inner, limit=3, weight=2)

        def outer(self: LimitedTask) -> list[int]:
            return [
                heavy.apply().result,
                occupied(app),
                lost.apply((permit_of(self).holder,)).result,
            ]

        assert task(app, outer, limit=3).apply().result == [3, 1, 0]
        assert occupied(app) == 0

    def test_the_difference_is_waited_for(self, app: Celery) -> None:
        store_of(app).acquire([Claim("one", None, 3)], "other")
        heavy = task(app, lambda self: occupied(app), name="heavy", limit=3, weight=3)

        def outer(self: LimitedTask) -> int:
            later = threading.Timer(0.3, store_of(app).release, ["other", [ONE]])
            later.start()
            number: int = heavy.apply().result
            later.join()
            return number

        assert task(app, outer, limit=3).apply().result == 3

    def test_a_difference_that_can_never_be_had_fails_at_once(self, app: Celery) -> None:
        heavy = task(app, lambda self: None, name="heavy", limit=3, weight=2)

        def outer(self: LimitedTask) -> str:
            store_of(app).set_limit(1, "one")
            start = time.monotonic()
            with pytest.raises(SemaphoreSaturated) as caught:
                heavy.apply()
            assert time.monotonic() - start < 5
            return str(caught.value)

        said = task(app, outer, limit=3).apply().result
        assert (
            "takes 2 of semaphore 'one', which has limit 1; the runs that it is part of hold 1"
            in said
        )
        assert occupied(app) == 0

    def test_of_several_claims_only_those_that_no_outer_run_holds_are_asked_for(
        self, app: Celery
    ) -> None:
        two = [Limit("one", 1), Limit("two", 1)]
        three = [*two, Limit("three", 1)]

        def innermost(self: LimitedTask) -> list[int]:
            permit_of(self).check()
            return [occupied(app, name) for name in ("one", "two", "three")]

        last = task(app, innermost, semaphore=three, limit=None)
        inner = task(app, lambda self: last.apply().result, name="inner", semaphore=two, limit=None)
        assert task(app, lambda self: inner.apply().result, name="o").apply().result == [1, 1, 1]
        assert [occupied(app, name) for name in ("one", "two", "three")] == [0, 0, 0]

    def test_not_another_key(self, app: Celery) -> None:
        def keyed(self: LimitedTask, key: int) -> tuple[int, int]:
            if key:
                found: tuple[int, int] = self.apply((0,)).result
                return found
            return occupied(app, resource_name("one", "1")), occupied(
                app, resource_name("one", "0")
            )

        assert task(app, keyed, key="{key}").apply((1,)).result == (1, 1)

    def test_not_another_thread(self, app: Celery) -> None:
        """It runs beside the body, which does not stand still."""
        app.conf.semaphore_eager_timeout = 0.2
        inner, ended = task(app, lambda self: None, name="inner"), list[str]()

        def run() -> None:
            with pytest.raises(SemaphoreTimeout):
                inner.apply()
            ended.append("timed out")

        def outer(self: LimitedTask) -> None:
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()

        task(app, outer).apply()
        assert ended == ["timed out"]

    def test_not_a_child(self, app: Celery, valkey: Any) -> None:
        """It runs beside its parent."""
        app.conf.update(semaphore_url=valkey.url, semaphore_eager_timeout=0.2)
        inner = task(app, lambda self: None, name="inner")

        def child() -> bool:
            with pytest.raises(SemaphoreTimeout):
                inner.apply()
            return True

        assert task(app, lambda self: in_child(child), name="outer").apply().result is True

    def test_not_another_app(self, app: Celery) -> None:
        other = Celery("other", broker="memory://", set_as_current=False)
        other.conf.semaphore_url = "memory://"
        inner = task(other, lambda self: occupied(other), name="inner")
        assert task(app, lambda self: inner.apply().result, name="outer").apply().result == 1

    def test_not_one_that_was_given_back(self, app: Celery) -> None:
        """A receiver at the end of a task that comes after ours."""
        inner, seen = task(app, lambda self: occupied(app), name="inner"), list[int]()

        def at_the_end(sender: Any, **_: Any) -> None:
            if sender.name == "outer":
                seen.append(occupied(app))
                seen.append(inner.apply().result)

        outer = task(app, lambda self: None, name="outer")
        outer.apply()  # ours is connected by now
        task_postrun.connect(at_the_end)
        try:
            outer.apply()
        finally:
            task_postrun.disconnect(at_the_end)
        assert seen == [0, 1]


class TestInAnEventLoop:
    """It may ask, which is one short call of the store, but a wait would stop the loop."""

    def run(self, call: Callable[[], Any]) -> Any:
        async def in_loop() -> Any:
            return call()

        return asyncio.run(in_loop())

    def test_it_runs_where_there_is_a_permit(self, app: Celery) -> None:
        assert self.run(task(app, lambda self: 7, name="body").apply).result == 7

    def test_it_does_not_wait(self, any_app: Celery) -> None:
        store_of(any_app).acquire([ONE], "other")
        body = task(any_app, lambda self: None, name="body")
        start = time.monotonic()
        with pytest.raises(SemaphoreError, match="task body: semaphore 'one' is saturated") as told:
            self.run(body.apply)
        assert not isinstance(told.value, SemaphoreTimeout)
        assert time.monotonic() - start < 10
        seen = store_of(any_app).snapshot("one")
        assert (seen.occupied, seen.waiting) == (1, 0)
        store_of(any_app).release("other", [ONE])

    def test_asked_once_it_stops_no_loop(self, app: Celery) -> None:
        """As the error of one that would wait advises."""
        app.conf.semaphore_eager_timeout = 0
        store_of(app).acquire([ONE], "other")
        with pytest.raises(SemaphoreTimeout):
            self.run(task(app, lambda self: None, name="body").apply)

    def test_it_waits_in_a_thread_beside_the_loop(self, app: Celery) -> None:
        store_of(app).acquire([ONE], "other")
        body = task(app, lambda self: 7, name="body")

        async def both() -> Any:
            loop = asyncio.get_running_loop()
            run = loop.run_in_executor(None, body.apply)
            await asyncio.sleep(0.1)
            store_of(app).release("other", [ONE])
            return await run

        assert asyncio.run(both()).result == 7


def test_a_name_that_was_replaced_is_released(app: Celery) -> None:
    """Nothing but the waiter knows it: the store had ended the run's own."""
    store = memory_of(app)

    class Dead(Asked):
        def acquire(self, claims: Any, holder: str, *rest: Any) -> Answer:
            if not self.waits:
                store.release(holder, claims)
            return super().acquire(claims, holder, *rest)

        def answered(self, answer: Answer) -> Answer:
            if isinstance(answer, Permit):
                raise StoreUnavailable("gone")
            return answer

    asked = Dead(store)
    with pytest.raises(StoreUnavailable):
        task(app, lambda _: None, name="eager").apply()
    assert len(asked.waits) == 2
    assert list(store.resources()) == []
