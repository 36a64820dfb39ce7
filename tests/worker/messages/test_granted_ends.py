"""Granted tasks that end without a run: the permit of each goes to the next one in that instant.

Each lease and ``semaphore_take_up`` is far longer than any test: none of them hides a grant that idles.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import celery
import pytest
from celery import Celery
from celery.result import AsyncResult

from celery_semaphore.core.permit import Permit
from celery_semaphore.core.store import Store
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.worker.main_process.discarded import watch_discards
from celery_semaphore.worker.messages.ticket_header import TICKET, sent_back
from tests.support.process import wait_until

from ..brokers import EITHER
from ..conftest import Site
from .test_parking import ONE, PARK, done
from .test_parking_ends import SWEEPS

CONF = PARK | {"semaphore_take_up": 60}
AT_ONCE_S = 1.0  # for each


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Site:
    site: Site = request.getfixturevalue(request.param)
    site.lease = 60.0
    return site


both = pytest.mark.parametrize("broker", EITHER, indirect=True)


@pytest.fixture
def store(broker: Site) -> Iterator[Store]:
    """With the only permit taken."""
    store = broker.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    yield store
    store.close()


def parked(site: Site, store: Store, count: int = 1, **options: Any) -> list[AsyncResult]:
    before = store.snapshot("one").waiting
    results = [site.send("hold", 0.0, "w", **options) for _ in range(count)]
    wait_until(lambda: store.snapshot("one").waiting == before + count, 20, "they are parked")
    return results


def granted_beside_a_busy_process(site: Site, store: Store, **options: Any) -> AsyncResult:
    """A task that was granted the permit, and waits for the only process of the only worker."""
    worker = site.start(concurrency=1, conf=CONF)
    (result,) = parked(site, store, **options)
    site.occupy(task="stay", resource="work")
    store.release("outside", [ONE])
    worker.wait_until(
        lambda: worker.log().count(f"hold[{result.id}] received") == 2, 20, "it was granted"
    )
    assert not site.all_back(ONE)
    return result


def stamped(by: str) -> dict[str, Any]:
    return {"stamped_headers": ["batch"], "batch": by}


@both
@pytest.mark.parametrize("how", ["id", "terminate", "stamp", "expires"])
def test_revoked_while_it_waits_for_a_process(broker: Site, store: Store, how: str) -> None:
    """Its process may be busy for hours."""
    site, control, options = broker, broker.client.control, dict[str, Any]()
    if how == "stamp":
        options = stamped("b")
    elif how == "expires":
        options = {"expires": datetime.now(UTC) + timedelta(seconds=8)}
    result = granted_beside_a_busy_process(site, store, **options)
    if how == "stamp":
        control.revoke_by_stamped_headers({"batch": "b"})
    elif how == "expires":
        time.sleep(max(0.0, (options["expires"] - datetime.now(UTC)).total_seconds()))
    else:
        control.revoke([result.id], terminate=how == "terminate")
    since = time.monotonic()
    site.wait_all_back(ONE, 10)
    assert time.monotonic() - since < AT_ONCE_S + 0.5  # with the way of the command
    if how == "terminate" and celery.VERSION < (5, 6):  # it says so when a process takes the task
        site.let_go("work")
    assert result.get(propagate=False, timeout=5).__class__.__name__ == "TaskRevokedError"
    site.let_go("work")
    assert site.send("free").get(timeout=10)
    assert site.counter.stats("w")["entries"] == 0


@both
@pytest.mark.parametrize("how", ["id", "stamp"])
def test_a_kept_one_is_revoked_while_it_waits_for_a_process(
    broker: Site, store: Store, how: str
) -> None:
    """Its session was granted the permit, and begins it."""
    site = broker
    worker = site.start(concurrency=1)
    (result,) = parked(site, store, **stamped("b") if how == "stamp" else {})
    site.occupy(task="stay", resource="work")
    store.release("outside", [ONE])
    wait_until(lambda: not store.snapshot("one").waiting, 10, "it was granted")
    # While it waits its grant is prolonged, but not for ever: then its session sleeps.
    if how == "stamp":
        site.client.control.revoke_by_stamped_headers({"batch": "b"})
    else:
        result.revoke()
    site.wait_all_back(ONE, AT_ONCE_S + 0.5)
    assert f"Discarding revoked task: hold[{result.id}]" in worker.log()
    site.let_go("work")
    assert site.send("free").get(timeout=10)


@both
def test_three_revoked_by_stamps(broker: Site) -> None:
    """A process is free: each is discarded when the pool should have it, and hands the permit on.

    No sweep comes in between, and the releaser reads no notes of its own accord.
    """
    site, store = broker, broker.store()
    site.start(concurrency=2, conf=CONF, env={"SWEEP_ONCE": "1", "REST_LONG": "1"})
    held = site.occupy()
    revoked = parked(site, store, 3, **stamped("b"))
    (following,) = parked(site, store)
    site.client.control.revoke_by_stamped_headers({"batch": "b"})
    site.send("free").get(timeout=10)
    since = time.monotonic()
    site.let_go()
    done([*held, following], 20)
    assert time.monotonic() - since < 3 * AT_ONCE_S
    assert {result.get(propagate=False).__class__.__name__ for result in revoked} == {
        "TaskRevokedError"
    }
    store.close()


@both
def test_discarded_before_there_is_a_request(broker: Site, store: Store) -> None:
    """The worker that parked it knew the task; the one that it comes back to does not."""
    site = broker
    knows = site.start(name="knows", concurrency=1, conf=CONF, env={"KNOWS_MORE": "1"})
    site.send("unknown", 0.0, "never")
    wait_until(lambda: store.snapshot("one").waiting == 1, 20, "it is parked")
    (following,) = parked(site, store)
    knows.warm()
    knows.wait(20)
    other = site.start(name="other", concurrency=1, conf=CONF)
    since = time.monotonic()
    store.release("outside", [ONE])
    done([following])
    assert time.monotonic() - since < SWEEPS + AT_ONCE_S
    assert "KeyError" in other.log()
    assert site.counter.stats("never")["entries"] == 0


@both
def test_its_process_dies_before_it_has_the_permit(
    broker: Site, store: Store, tmp_path: Path
) -> None:
    """It is delivered again by its home queue, where it may wait for long."""
    site, struck = broker, tmp_path / "struck"
    struck.touch()
    env = {"FAULT": "child: before acquire", "FAULT_FILE": str(struck)}
    site.start(concurrency=1, conf=CONF, env=env)
    (dies,) = parked(site, store)
    (following,) = parked(site, store)
    backlog = [site.send("free", 0.5) for _ in range(60)]
    struck.unlink()
    store.release("outside", [ONE])
    done([following], 15)
    assert struck.exists()
    assert not dies.ready()
    site.wait_all_back(ONE, AT_ONCE_S)
    site.client.control.revoke([each.id for each in backlog])
    done([dies], 60)


@pytest.mark.parametrize("which", ["on_decode_error", "on_unknown_task", "on_invalid_task"])
@pytest.mark.parametrize("fails", [False, True])
def test_each_way_to_discard_a_message(app: Celery, which: str, *, fails: bool) -> None:
    """Also if Celery's own function fails, such as at its result backend."""
    ticket = Ticket("x:7b", 9, 1795325987266815)
    released: list[Any] = []
    releaser = SimpleNamespace(release=lambda *grant: released.append(grant))
    limiter: Any = SimpleNamespace(process=SimpleNamespace(releaser=releaser))
    calls: list[Any] = []

    def discard(*call: Any) -> None:
        calls.append(call)
        if fails:
            raise OSError("no backend")

    names = ("on_decode_error", "on_unknown_task", "on_invalid_task")
    c: Any = SimpleNamespace(**dict.fromkeys(names, discard))
    watch_discards(c, limiter)
    header = sent_back("x:7b", 1, ticket, 1, granted=[ONE])
    for headers in ({"id": "x", TICKET: header}, {"id": "y", TICKET: header}, {"id": "x"}, None):
        message = SimpleNamespace(headers=headers)
        call = (message, "error") if which == "on_decode_error" else ("body", message, "error")
        with pytest.raises(OSError, match="no backend") if fails else nullcontext():
            getattr(c, which)(*call)
        assert calls.pop() == call
    assert [(found, [each.resource for each in claims]) for found, claims in released] == [
        (ticket, ["one"])
    ]
