"""The way back of a parked task: a short queue beside its own, or its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import celery
import pytest

from celery_semaphore.core.permit import Permit
from tests.conftest import StartServer
from tests.support.lines import whole_lines
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.rabbit import Rabbit
from tests.support.servers import ValkeyServer

from ..brokers import EITHER
from ..conftest import Site
from .test_parking import ONE, PARK, all_parked, done, overtake, ran_once
from .test_route import DIRECT, QUORUM

BIG = {"semaphore_park_max_size": 3000}


def routes(path: Path, task: str) -> list[str]:
    came = [json.loads(line) for line in whole_lines(path)]
    return [each["route"].rpartition("/")[2] for each in came if each["id"] == task]


@pytest.mark.parametrize("broker", EITHER)
def test_overtakes_the_backlog_of_its_queue(broker: str, request: pytest.FixtureRequest) -> None:
    site: Site = request.getfixturevalue(broker)
    site.start(concurrency=2, conf=PARK)
    held = site.occupy()
    waiters = [site.send("hold", 0.0, "w") for _ in range(2)]
    wait_until(lambda: site.waiting() == 2, 20, "they are parked")
    backlog = [site.send("free", 0.2) for _ in range(60)]
    site.let_go()
    done([*held, *waiters, *backlog], 60)
    overtake(waiters, backlog, max(result.date_done for result in held))


@pytest.mark.parametrize("broker", EITHER)
def test_overtakes_what_its_worker_has_prefetched(
    broker: str, request: pytest.FixtureRequest
) -> None:
    """Its permit is kept for it: it gets the next process that is free."""
    site: Site = request.getfixturevalue(broker)
    site.start(concurrency=2, conf=PARK)
    held = site.occupy()
    waiter = site.send("hold", 0.0, "w")
    wait_until(lambda: site.waiting() == 1, 20, "it is parked")
    backlog = [site.send("free", 0.3) for _ in range(30)]
    wait_until(lambda: any(result.ready() for result in backlog), 20, "the prefetch is full")
    site.let_go()
    done([*held, waiter, *backlog], 40)
    since = max(result.date_done for result in held)
    # Both processes may have had one each when it came, and may have got another; six are prefetched.
    assert sum(since < result.date_done < waiter.date_done for result in backlog) <= 3


@pytest.mark.rabbitmq
def test_the_granted_queue_has_a_prefetch_of_its_own(
    rabbit_site: Site, rabbitmq_server: Rabbit
) -> None:
    """Else what is granted stays with the broker while the worker's prefetch is used up."""
    rabbit_site.start(concurrency=2, conf=PARK)
    host = rabbit_site.broker.rpartition("/")[2]

    def channels() -> dict[str, str]:
        listed = rabbitmq_server.control("list_consumers", "-p", host, "queue_name", "channel_pid")
        return dict(line.split() for line in listed.splitlines() if line)

    both = wait_until(
        lambda: (found := channels()).keys() >= {"celery", "celery.granted"} and found, 20, "both"
    )
    assert both["celery"] != both["celery.granted"]


@pytest.mark.parametrize("broker", EITHER)
def test_a_worker_starts_on_a_backlog(broker: str, request: pytest.FixtureRequest) -> None:
    """It consumes one more queue, and not before its event loop is ready for messages."""
    site: Site = request.getfixturevalue(broker)
    results = [site.send("hold", 0.0, "w") for _ in range(50)]
    worker = site.start(concurrency=2, conf=PARK)
    done(results)
    ran_once(site, "w", results, 1)
    assert "Unrecoverable" not in worker.log()
    assert "Traceback" not in worker.log()


@pytest.mark.slow
@pytest.mark.parametrize("broker", EITHER)
def test_only_who_consumes_its_queue_gets_it(broker: str, request: pytest.FixtureRequest) -> None:
    site: Site = request.getfixturevalue(broker)
    parker = site.start(name="parker", concurrency=1, conf=PARK)
    other = site.start(name="other", concurrency=2, queues=["other"], conf=PARK)
    held = site.occupy(queue="other")
    result = site.send("hold", 0.0, "w")
    all_parked(site, request, 1)
    parker.warm()
    parker.wait(20)
    site.let_go()
    done(held)
    wait_until(lambda: site.waiting() == 0, 10, "the other worker sent it")
    site.send("free", queue="other").get(timeout=10)
    assert not result.ready()
    assert result.id not in other.log()
    site.start(name="heir", concurrency=1, conf=PARK)
    done([result])


@pytest.mark.skipif(celery.VERSION < (5, 6), reason="this Celery always prefetches")
def test_no_granted_message_waits_behind_a_busy_process(site: Site, valkey: ValkeyServer) -> None:
    """Where the user wants no prefetching: its permit would idle, while another worker has nothing to do."""
    site.lease = 60.0
    conf = PARK | {"worker_disable_prefetch": True}
    busy = site.start(name="busy", concurrency=1, conf=conf)
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    result = site.send("hold", 0.0, "w")
    wait_until(lambda: site.waiting() == 1, 20, "it is parked")
    works = site.occupy(task="call", resource="work")
    with valkey.client() as client:  # a question that was asked before would still be answered
        wait_until(
            lambda: client.info("clients")["blocked_clients"] == 0, 20, "it asks for no more"
        )
    store.release("outside", [ONE])
    wait_until(lambda: not list(store.snapshot("one").waiters), 20, "it was granted, and sent")
    site.start(name="idle", concurrency=1, conf=conf)
    done([result], 15)
    assert not works[0].ready()
    assert busy.log().count(f"hold[{result.id}] received") == 1
    site.let_go("work")
    done(works)
    store.close()


@pytest.mark.parametrize("broker", EITHER)
def test_a_queue_that_a_worker_stops_to_consume(
    broker: str, request: pytest.FixtureRequest
) -> None:
    """An operator empties a worker before its end; nothing comes back to it by the queue's granted one."""
    site: Site = request.getfixturevalue(broker)
    site.lease = 60.0  # nobody renews what the test holds
    site.start(concurrency=2, conf=PARK, queues=["celery", "other"])
    store, control = site.store(), site.client.control
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    result = site.send("hold", 0.0, "w")
    wait_until(lambda: site.waiting() == 1, 20, "it is parked")
    assert control.cancel_consumer("celery", reply=True, timeout=1)
    store.release("outside", [ONE])
    wait_until(lambda: not store.snapshot("one").waiting, 10, "it was sent")
    wait_until(lambda: not list(store.snapshot("one").holders), 10, "without its permit")
    for _ in range(3):  # by then it would have come
        site.send("free", queue="other").get(timeout=10)
    assert not result.ready()
    assert control.add_consumer("celery", reply=True, timeout=1)
    done([result])
    ran_once(site, "w", [result], 1)
    store.close()


@pytest.mark.parametrize("broker", EITHER)
def test_a_queue_that_a_worker_begins_to_consume(
    broker: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    site: Site = request.getfixturevalue(broker)
    site.lease = 60.0  # nobody renews what the test holds
    site.start(concurrency=2, conf=PARK, env={"LOG_MESSAGES": str(tmp_path / "messages")})
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    site.listens()
    assert site.client.control.add_consumer("added", reply=True, timeout=1)
    result = site.send("hold", 0.0, "w", queue="added")
    wait_until(lambda: site.waiting() == 1, 20, "it is parked")
    store.release("outside", [ONE])
    done([result])
    assert routes(tmp_path / "messages", result.id) == ["added", "added.granted"]
    store.close()


def test_without_granted_queues(site: Site, tmp_path: Path, valkey: ValkeyServer) -> None:
    conf = PARK | {"semaphore_granted_queues": False}
    site.start(concurrency=2, conf=conf, env={"LOG_MESSAGES": str(tmp_path / "messages")})
    held = site.occupy()
    results = [site.send("hold", 0.0, "w") for _ in range(5)]
    wait_until(lambda: site.waiting() == 5, 20, "they are parked")
    site.let_go()
    done([*held, *results])
    ran_once(site, "w", results, 1)
    assert routes(tmp_path / "messages", results[0].id) == ["celery", "celery"]
    with valkey.client() as broker:
        assert not broker.keys("*granted*")


def test_granted_queues_turned_off_while_tasks_are_parked(
    site: Site, request: pytest.FixtureRequest
) -> None:
    """Nobody consumes those queues any more: what comes back, comes by its own."""
    before = site.start(name="before", concurrency=2, conf=PARK)
    store = site.store()
    store.set_limit(0, "one")
    results = [site.send("hold", 0.0, "w") for _ in range(5)]
    all_parked(site, request, 5)
    before.warm()
    before.wait(20)
    site.start(name="after", concurrency=2, conf=PARK | {"semaphore_granted_queues": False})
    store.set_limit(None, "one")
    store.close()
    done(results)


@pytest.mark.parametrize("conf", [{}, PARK], ids=["requeue", "park"])
def test_a_queue_of_the_user_may_be_called_granted(site: Site, conf: dict[str, Any]) -> None:
    site.start(concurrency=2, queues=["access.granted"], conf=conf)
    held = site.occupy(queue="access.granted")
    results = [site.send("hold", 0.0, "w", queue="access.granted") for _ in range(3)]
    retried = site.send("retries", queue="access.granted")
    wait_until(lambda: site.waiting() == 4, 20, "they wait")
    site.let_go()
    done([*held, *results, retried], 20)


@pytest.mark.slow
@pytest.mark.rabbitmq
@pytest.mark.parametrize("queues", [["celery.granted"], ["celery", "celery.granted"]])
def test_queues_deleted_while_it_is_parked(
    rabbit_site: Site, queues: list[str], request: pytest.FixtureRequest
) -> None:
    """Nobody is there who would consume them: its own is declared again, and it waits there."""
    site = rabbit_site
    site.lease = 60.0
    store = site.store()
    store.acquire([ONE], "outside")
    parker = site.start(name="parker", concurrency=1, conf=PARK)
    site.start(name="other", concurrency=2, queues=["other"], conf=PARK)
    results = [site.send("hold", 0.0, "w") for _ in range(3)]
    all_parked(site, request, 3)
    parker.warm()
    parker.wait(20)
    with site.client.connection_for_write() as connection:
        for queue in queues:
            connection.default_channel.queue_delete(queue)
    store.release("outside", [ONE])
    store.close()
    wait_until(lambda: site.waiting() <= 2, 10, "the first is on its way")
    site.start(name="heir", concurrency=1, conf=PARK)
    done(results)


@pytest.mark.rabbitmq
@pytest.mark.parametrize(
    ("name", "conf"),
    [
        pytest.param("call", QUORUM, id="call-topic"),
        pytest.param("call_late", DIRECT, id="call_late-direct"),
        # When a message is acknowledged has no part in the way on which it comes back.
        pytest.param("call", DIRECT, id="call-direct", marks=pytest.mark.variants),
        pytest.param("call_late", QUORUM, id="call_late-topic", marks=pytest.mark.variants),
    ],
)
def test_quorum_queues(rabbit_site: Site, name: str, conf: dict[str, str]) -> None:
    rabbit_site.client.conf.update(conf)
    for worker in ("a", "b"):
        rabbit_site.start(name=worker, concurrency=4, conf=conf | PARK)
    results = [rabbit_site.send(name, 0.2, "api") for _ in range(60)]
    done(results, 100)
    ran_once(rabbit_site, "api", results, 5)
    assert rabbit_site.counter.stats("api")["max_inside"] > 1


def test_too_large_to_be_parked(site: Site) -> None:
    worker = site.start(concurrency=2, conf=PARK | BIG)
    held = site.occupy()
    large = site.send("look", "x" * 4000)
    small = site.send("look", "x")
    wait_until(lambda: site.waiting() == 2, 20, "they wait")
    site.let_go()
    done([*held, small, large])
    log = worker.log()
    assert f"task {large.id} is requeued, not parked: its message takes " in log
    assert " bytes, and semaphore_park_max_size is 3000" in log
    assert f"task {small.id} is requeued" not in log
    site.wait_all_back(ONE, 5)


@pytest.fixture
def proxy(site: Site, start_valkey: StartServer, start_proxy: Callable[[int], Proxy]) -> Proxy:
    """Before a store of its own, which the broker does not need."""
    server = start_valkey(appendonly="yes", appendfsync="always")
    proxy = start_proxy(server.port)
    site.store_url = f"redis://127.0.0.1:{proxy.port}/1"
    return proxy


@pytest.mark.parametrize("name", ["early", "late"])
def test_the_answer_is_lost_while_it_is_parked(site: Site, proxy: Proxy, name: str) -> None:
    """It was parked, and is requeued: one of the two runs."""
    worker = site.start(concurrency=2, conf=PARK)
    held = site.occupy()
    proxy.drop_answers(2, matching=b'"content_type"')
    result = site.send(name, "success", "w")
    wait_until(lambda: proxy.answers_dropped == 2, 20, "both answers were lost")
    site.let_go()
    done([*held, result], 20)
    assert f"task {result.id} is requeued, not parked" in worker.log()
    wait_until(lambda: site.waiting() == 0, 10, "nobody waits")
    site.wait_all_back(ONE, 5)
    assert site.counter.stats("w")["entries"] == 1


@pytest.mark.parametrize("how", ["cut", "hang"])
def test_the_store_is_away_while_tasks_are_parked(site: Site, proxy: Proxy, how: str) -> None:
    worker = site.start(concurrency=3, conf=PARK | {"semaphore_timeout": 1})
    held = site.occupy()
    results = [site.send("hold", 0.0, "w") for _ in range(10)]
    wait_until(lambda: site.waiting() == 10, 20, "they are parked")
    getattr(proxy, how)()
    late = [site.send("hold", 0.0, "w") for _ in range(5)]
    wait_until(lambda: worker.log().count("the store cannot be asked") >= 5, 20, "they go back")
    site.let_go()
    done(held)
    proxy.restore()
    done(results + late)
    stats = site.counter.stats("w")
    assert (stats["entries"], stats["max_inside"]) == (15, 1)
    site.wait_all_back(ONE, 5)
