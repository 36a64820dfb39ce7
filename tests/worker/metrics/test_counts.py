"""What a worker counts, in the life of a task."""

from __future__ import annotations

import json
from typing import Any

import pytest
from celery.result import AsyncResult

from celery_semaphore.core.claim import Claim
from tests.support.process import free_port, wait_until
from tests.support.servers import ValkeyServer
from tests.support.variants import also

from ..conftest import Site, valkey_only
from .conftest import StartWatched

ONE = Claim("one", None, 1)
PARK = {"semaphore_on_saturated": "park"}


def done(*results: AsyncResult) -> None:
    wait_until(lambda: all(result.ready() for result in results), 30, "all are done")


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", *also("solo", "eventlet")])
def test_permits(site: Site, watched: StartWatched, pool: str) -> None:
    here = watched(pool=pool, concurrency=1 if pool == "solo" else 2)
    assert here.get("acquired_total", semaphore="api", task="call") == 0, "it begins at zero"
    done(*(site.send("call", 0.05) for _ in range(10)), *(site.send("both", "t") for _ in range(3)))
    here.wait(10, "held_seconds_count", semaphore="api")
    here.wait(3, "held_seconds_count", semaphore="each")
    seen = here.scraped()
    assert seen.get("acquired_total", semaphore="api", task="call") == 10
    assert seen.get("acquired_total", task="both") == 6, "once for each of two semaphores"
    assert seen.get("acquired_total") == 16
    assert seen.get("wait_seconds_count", semaphore="api") == 10
    assert seen.get("wait_seconds_sum", semaphore="api") == 0
    assert 0.5 <= seen.get("held_seconds_sum", semaphore="api") < 10
    assert seen.get("store_seconds_count", operation="acquire") == 13
    assert 0 < seen.get("store_seconds_sum", operation="acquire") < 13 * 2
    assert seen.get("store_seconds_count", operation="reap") >= 1
    size = 1 if pool == "solo" else 2
    assert seen.get("worker_processes", state="idle") == size
    assert seen.get("worker_processes", state="busy") == 0
    assert seen.get("lost_total") == seen.get("store_errors_total") == 0
    assert (
        "lost_total",
        frozenset({("semaphore", "api"), ("task", "call"), ("reason", "ended")}),
    ) in (seen.samples), "an alarm must see the first loss as an increase"


def test_a_task_that_is_kept_until_it_is_granted(site: Site, watched: StartWatched) -> None:
    here = watched()
    (held,) = site.occupy()
    waiting = site.send("look")
    here.wait(1, "worker_kept_messages")
    seen = here.scraped()
    assert seen.get("refused_total", semaphore="one", task="look", reason="saturated") == 1
    assert seen.get("worker_processes", state="busy") == 1, "a kept message is in no process"
    site.let_go()
    done(held, waiting)
    here.wait(2, "held_seconds_count", semaphore="one")
    seen = here.scraped()
    assert seen.get("refused_total") == 1
    assert seen.get("acquired_total", semaphore="one", task="look") == 1
    assert 0 < seen.get("wait_seconds_sum", semaphore="one") < 30
    assert seen.get("wait_seconds_count", semaphore="one") == 2
    assert seen.get("take_up_seconds_count", semaphore="one") == 1, "the first was not granted one"
    assert 0 < seen.get("take_up_seconds_sum", semaphore="one") < 5
    assert seen.get("worker_kept_messages") == seen.get("ended_unrun_total") == 0


def test_a_task_that_is_published_again(site: Site, watched: StartWatched) -> None:
    here = watched({"semaphore_keep": False})
    (held,) = site.occupy()
    waiting = site.send("look")
    here.wait(1, "put_back_total", semaphore="one", task="look")
    site.let_go()
    done(held, waiting)
    here.wait(2, "acquired_total")
    seen = here.scraped()
    assert seen.get("put_back_total") == seen.get("refused_total")
    assert seen.get("wait_seconds_sum", semaphore="one") > 0


def test_a_task_that_is_parked(site: Site, watched: StartWatched) -> None:
    here = watched(PARK)
    (held,) = site.occupy()
    waiting = [site.send("look") for _ in range(3)]
    here.wait(3, "parked_total", semaphore="one", task="look")
    assert here.get("brought_back_total") == 0
    site.let_go()
    done(held, *waiting)
    here.wait(4, "acquired_total", semaphore="one")
    seen = here.scraped()
    assert seen.get("brought_back_total", semaphore="one", task="look") == 3
    assert seen.get("refused_total") == seen.get("parked_total") == 3
    assert seen.get("take_up_seconds_count", semaphore="one") == 3
    assert seen.get("put_back_total") == 0


def test_waits_that_end_without_a_run(site: Site, watched: StartWatched) -> None:
    here = watched()
    site.occupy()
    ends = [site.send("dropped", "d"), site.send("failing", "f"), site.send("impatient", "i")]
    ends.append(site.send("look", expires=1.5))
    revoked = site.send("hold", 0, "r")
    here.wait(3, "worker_kept_messages")
    revoked.revoke()
    done(*ends, revoked)
    here.wait(5, "ended_unrun_total", semaphore="one")
    seen = here.scraped()
    for task, how in (
        ("dropped", "dropped"),
        ("failing", "failed"),
        ("impatient", "timed_out"),
        ("look", "expired"),
        ("hold", "revoked"),
    ):
        assert seen.get("ended_unrun_total", task=task, how=how) == 1, task
    for task in ("dropped", "failing", "look"):
        assert seen.get("refused_total", task=task, reason="saturated") == 1, task
    assert seen.get("refused_total", task="impatient", reason="timed_out") == 1
    assert seen.get("acquired_total") == 1


def test_what_never_waited_did_not_end_a_wait(site: Site, watched: StartWatched) -> None:
    here = watched()
    done(site.send("look", expires=-1))
    assert here.get("ended_unrun_total") == 0


@pytest.mark.parametrize("how", ["revoked", "expired", "timed_out"])
def test_parked_waits_that_end_without_a_run(site: Site, watched: StartWatched, how: str) -> None:
    here = watched(PARK)
    site.occupy()
    if how == "timed_out":
        ends = site.send("impatient", "i")
    else:
        ends = site.send("look", expires=1.5 if how == "expired" else None)
    here.wait(1, "parked_total")
    if how == "revoked":
        ends.revoke()
    done(ends)
    here.wait(1, "ended_unrun_total", how=how)
    seen = here.scraped()
    assert seen.get("ended_unrun_total") == seen.get("brought_back_total") == 1
    assert seen.get("acquired_total") == 1


def test_a_refusal_inside_a_body_is_not_that_of_its_task(site: Site, watched: StartWatched) -> None:
    here = watched()
    site.occupy()
    failed = site.send("fails_inside")
    done(failed)
    assert type(failed.result).__name__ == "SemaphoreSaturated"
    here.wait(1, "held_seconds_count", semaphore="outer")
    seen = here.scraped()
    assert seen.get("ended_unrun_total") == seen.get("refused_total") == 0


@valkey_only
def test_a_copy(site: Site, watched: StartWatched, valkey: ValkeyServer) -> None:
    """As a crash leaves it: a message was published again, and the old one was not acknowledged."""
    here = watched({"semaphore_keep": False, "semaphore_requeue_delay": 1.0})
    (held,) = site.occupy()
    waiting = site.send("look")
    with valkey.client() as broker:

        def published() -> list[Any]:
            raw: Any = [*broker.lrange("celery", 0, -1), *broker.hvals("unacked")]
            found = [json.loads(each) for each in raw]
            messages = [each[0] if isinstance(each, list) else each for each in found]
            return [m for m in messages if m["headers"].get("semaphore_ticket")]

        message = wait_until(published, 20, "it is published")[0]
        its_header = message["headers"]["semaphore_ticket"]

        def published_again() -> bool:
            """Else both are one message, and each may run."""
            headers = {m["headers"]["semaphore_ticket"] for m in published()}
            return bool(headers) and its_header not in headers

        wait_until(published_again, 20, "it is published again")
        message["properties"]["delivery_tag"] = "another"
        site.let_go()
        done(held)
        broker.lpush("celery", json.dumps(message))
    done(waiting)
    here.wait(1, "copies_total", semaphore="one", task="look")
    seen = here.scraped()
    assert seen.get("refused_total", reason="copy") == 1
    assert seen.get("ended_unrun_total") == 0
    assert seen.get("acquired_total") == 2


def test_a_permit_that_is_lost(site: Site, watched: StartWatched) -> None:
    here = watched()
    site.occupy()
    store = site.store()
    (holder,) = store.snapshot("one").holders
    store.release(holder.holder, [ONE])
    store.close()
    here.wait(1, "lost_total", semaphore="one", task="hold", reason="ended")
    assert here.get("lost_total") == 1


@valkey_only
def test_a_permit_that_is_restored(site: Site, watched: StartWatched, valkey: ValkeyServer) -> None:
    here = watched()
    site.occupy()
    with valkey.client(1) as store:
        store.flushdb()
    here.wait(1, "restored_total", semaphore="one", task="hold")
    assert here.get("lost_total") == 0


def test_a_store_that_cannot_be_reached(site: Site, watched: StartWatched) -> None:
    site.store_url = f"redis://127.0.0.1:{free_port()}/0"
    here = watched()
    site.send("both", "t")
    wait_until(
        lambda: here.get("refused_total", task="both", reason="unreachable") >= 2, 20, "refused"
    )
    seen = here.scraped()
    assert seen.get("refused_total", semaphore="total") == seen.get(
        "refused_total", semaphore="each"
    )
    assert seen.get("store_errors_total", operation="check") == 1
    assert seen.get("store_errors_total", operation="acquire") == 1
    assert seen.get("acquired_total") == 0
