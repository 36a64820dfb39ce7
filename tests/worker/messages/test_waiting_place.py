"""Where a waiting task lies with ``on_saturated="wait"``: real workers, brokers and stores."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.sweep import SWEEP_S
from tests.stores.test_health import forbidding
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer, ValkeyServer
from tests.support.worker import CeleryWorker

from ..conftest import Site, valkey_only
from .test_parking import done, ran_once, started
from .test_route import QUORUM

ONE = Claim("one", None, 1)
WAIT: dict[str, Any] = {"semaphore_on_saturated": "wait"}
StartServer = Callable[..., RedisServer]
pytestmark = valkey_only


def says(worker: CeleryWorker, *words: str) -> None:
    wait_until(lambda: any(all(w in line for w in words) for line in lines(worker)), 20, str(words))


def lines(worker: CeleryWorker) -> list[str]:
    return worker.log().splitlines()


def lies(site: Site, worker: CeleryWorker) -> str:
    """Let one task wait, and return where it did."""
    held = site.occupy()
    result = site.send("hold", 0.05, "w")
    wait_until(lambda: site.waiting() == 1, 20, "it waits")
    wait_until(lambda: result.id in worker.log().rpartition("Task hold")[2], 20, "it is logged")
    kinds = {waiter.kind.value for waiter in site.store().snapshot("one").waiters}
    site.let_go()
    done([*held, result], 20)
    (kind,) = kinds
    return str(kind)


def test_in_the_brokers_own_server(site: Site) -> None:
    """Under another name of the host, in another database."""
    site.store_url = site.store_url.replace("127.0.0.1", "localhost")
    worker = site.start(concurrency=2, conf=WAIT)
    says(
        worker, "INFO", "waiting tasks are parked in redis://localhost:", "the broker's own server"
    )
    assert lies(site, worker) == "park"
    site.wait_all_back(ONE, 5)


@pytest.mark.rabbitmq
@pytest.mark.parametrize(
    ("appendonly", "queues", "kind"),
    [("yes", {}, "park"), ("no", {}, "requeue"), ("yes", QUORUM, "requeue")],
    ids=["AOF", "no AOF", "AOF, quorum queue"],
)
def test_beside_rabbitmq(
    rabbit_site: Site,
    start_valkey: StartServer,
    appendonly: str,
    queues: dict[str, str],
    kind: str,
) -> None:
    rabbit_site.store_url = start_valkey(appendonly=appendonly).url
    rabbit_site.client.conf.update(queues)
    worker = rabbit_site.start(concurrency=2, conf=WAIT | queues)
    says(worker, "waiting tasks are parked in" if kind == "park" else "not parked in")
    assert lies(rabbit_site, worker) == kind


@pytest.mark.rabbitmq
@pytest.mark.parametrize(
    ("commit", "kind"), [("on", "park"), ("off", "requeue")], ids=["commits", "commits later"]
)
def test_in_postgresql(rabbit_site: Site, postgres: PostgresServer, commit: str, kind: str) -> None:
    postgres.run(f"ALTER ROLE postgres SET synchronous_commit = {commit}")
    try:
        rabbit_site.store_url = postgres.url
        worker = rabbit_site.start(concurrency=2, conf=WAIT)
        says(worker, "PostgreSQL at 127.0.0.1:")
        assert lies(rabbit_site, worker) == kind
    finally:
        postgres.run("ALTER ROLE postgres RESET synchronous_commit")


def test_persistence_is_switched_off_while_tasks_come(
    site: Site, start_valkey: StartServer
) -> None:
    """What is parked stays and runs; what is refused from then on is kept; both stand in one line."""
    server = start_valkey(appendonly="yes")
    site.store_url = server.url
    worker = site.start(concurrency=2, conf=WAIT, env={"LOOK_OFTEN": "1"})
    says(worker, "waiting tasks are parked in", "it writes an AOF")
    held = site.occupy()
    before = [site.send("hold", 0.02, "w") for _ in range(10)]
    wait_until(lambda: site.waiting() == 10, 20, "they are parked")
    with server.client() as client:
        client.config_set("appendonly", "no")
        says(worker, "WARNING", "waiting tasks are kept by workers, not parked in", "no AOF")
        after = [site.send("hold", 0.02, "w") for _ in range(10)]
        wait_until(lambda: site.waiting() == 20, 20, "they wait")
        kinds = [waiter.kind.value for waiter in site.store().snapshot("one", 20).waiters]
        assert kinds == ["park"] * 10 + ["requeue"] * 10
        client.config_set("appendonly", "yes")
        wait_until(lambda: worker.log().count("waiting tasks are parked in") == 2, 20, "and back")
    assert worker.log().count("waiting tasks are kept by workers") == 1
    site.let_go()
    done([*held, *before, *after])
    ran_once(site, "w", before + after, 1)
    assert started(site, "w") == [result.id for result in before + after]
    site.wait_all_back(ONE, 5)


def test_no_sweep_waits_for_a_broker_that_is_away(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy], tmp_path: Path
) -> None:
    """Each question would take two seconds or more."""
    proxy, looks = start_proxy(valkey.port), tmp_path / "looks"
    site.broker = site.broker.replace(str(valkey.port), str(proxy.port))
    env = {"LOOK_OFTEN": "0.1", "LOG_LOOKS": str(looks)}
    worker = site.start(concurrency=2, conf=WAIT, env=env)
    site.send("free").get(timeout=20)  # its loop runs

    def asked() -> int:
        return looks.read_text().count("asked")

    wait_until(lambda: asked() > 2, 20, "it looks with each sweep")
    proxy.cut()
    worker.wait_until(lambda: "Connection to broker lost" in worker.log(), 20, "it is noticed")
    before = asked()
    time.sleep(4 * SWEEP_S)
    assert asked() - before <= 1, "one may have begun before"
    proxy.restore()
    wait_until(lambda: asked() > before + 2, 30, "it looks again")
    # A question that began right before the cut may have failed.
    said = "waiting tasks are parked in"
    wait_until(lambda: said in worker.log().rpartition("not parked in")[2], 20, "it parks")


def test_two_workers_that_decide_differently(site: Site, start_valkey: StartServer) -> None:
    """One may not ask the broker which server it is: both kinds stand in one line, in order."""
    server = start_valkey()
    site.store_url = server.url
    site.broker = server.database(1)
    site.client.conf.broker_url = site.broker
    parks = site.start(name="parks", concurrency=2, conf=WAIT)
    says(parks, "waiting tasks are parked in")
    keeps = site.start(
        name="keeps", concurrency=2, conf=WAIT, env={"BROKER": forbidding("info", server, 1)}
    )
    says(keeps, "waiting tasks are kept by workers, not parked in")
    held = site.occupy()
    results = [site.send("hold", 0.02, "w") for _ in range(60)]
    wait_until(lambda: site.waiting() == 60, 20, "they wait")
    kinds = [waiter.kind.value for waiter in site.store().snapshot("one", 60).waiters]
    assert set(kinds) == {"park", "requeue"}
    order = [waiter.ticket.nonce[:36] for waiter in site.store().snapshot("one", 60).waiters]
    site.let_go()
    done([*held, *results])
    ran_once(site, "w", results, 1)
    assert started(site, "w") == order
    site.wait_all_back(ONE, 5)


def test_a_large_message_is_kept(site: Site) -> None:
    """It was published again and again, with a line in the log for each time."""
    worker = site.start(concurrency=2, conf=WAIT | {"semaphore_park_max_size": 3000})
    held = site.occupy()
    results = [site.send("look", "x" * 4000) for _ in range(3)]
    small = site.send("look", "x")
    wait_until(lambda: site.waiting() == 4, 20, "they wait")
    kinds = sorted(waiter.kind.value for waiter in site.store().snapshot("one").waiters)
    assert kinds == ["park", "requeue", "requeue", "requeue"]
    site.let_go()
    done([*held, *results, small])
    assert worker.log().count("requeued, not parked: its message takes ") == 1


def test_a_store_with_many_parked_tasks(site: Site) -> None:
    """The count lags behind by a look, so a few more than the setting may be parked."""
    conf = WAIT | {"semaphore_park_max_waiting": 5}
    worker = site.start(concurrency=2, conf=conf, env={"LOOK_OFTEN": "1"})
    held = site.occupy()
    results = [site.send("hold", 0.02, "w") for _ in range(5)]
    wait_until(lambda: site.waiting() == 5, 20, "they are parked")
    says(worker, "WARNING", "semaphore_park_max_waiting is 5")
    results += [site.send("hold", 0.02, "w") for _ in range(5)]
    wait_until(lambda: site.waiting() == 10, 20, "they wait")
    kinds = [waiter.kind.value for waiter in site.store().snapshot("one").waiters]
    assert kinds == ["park"] * 5 + ["requeue"] * 5
    site.let_go()
    done([*held, *results])
    assert started(site, "w") == [result.id for result in results]
    wait_until(lambda: worker.log().count("waiting tasks are parked in") == 2, 20, "and again")
