"""Thousands of tasks while processes are killed at random: `make soak`."""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from tests.conftest import need
from tests.support.counter import CounterServer
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.worker import CeleryWorker
from tests.worker.conftest import Site

from .places import ValkeyBroker
from .record import Record

TASKS = int(os.environ.get("SOAK_TASKS", "10000"))
LIMITS = {"one": 1, "five": 5} | {f"each {n}": 2 for n in range(200)}
KINDS = ["one", "five", *["each"] * 8]
BACK_SOON = {
    "visibility_timeout": 8,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
    # A worker that is killed while it restores leaves kombu's lock: by default nothing is restored for five minutes.
    "unacked_mutex_expire": 2,
}


@pytest.fixture(params=["valkey", "postgres"])
def postgres(request: pytest.FixtureRequest) -> Iterator[PostgresServer | None]:
    """A server of the test's own that keeps the permits, and loses what it was told last when it crashes."""
    if request.param == "valkey":
        yield None
        return
    need(PostgresServer)
    with PostgresServer(wal_writer_delay="10s") as server:
        server.install()
        yield server


@pytest.fixture(params=["rabbitmq", "redis"])
def redis(request: pytest.FixtureRequest) -> Iterator[ValkeyBroker | None]:
    """The broker of one test, whose record shows what became of each message; None where RabbitMQ is the broker."""
    if request.param == "rabbitmq":
        yield None
        return
    need(ValkeyServer)
    with ValkeyBroker() as broker:
        yield broker


@pytest.fixture
def site(
    counter_server: CounterServer,
    postgres: PostgresServer | None,
    redis: ValkeyBroker | None,
    request: pytest.FixtureRequest,
) -> Iterator[Site]:
    with ValkeyServer() as valkey:
        base = valkey.url.removesuffix("/0")
        broker = redis.url if redis else request.getfixturevalue("rabbitmq_url")
        store = f"{base}/1" if postgres is None else postgres.url
        counter = counter_server.client()
        counter.reset()
        site = Site(broker, f"{base}/2", store, dict(counter_server.env), counter, lease=5.0)
        yield site
        site.stop()


def send(site: Site) -> dict[str, Any]:
    """Everything at once; task id → (result, late acks)."""
    sent: dict[str, Any] = {}
    for n in range(TASKS):
        acks, kind = random.choice(["early", "late"]), random.choice(KINDS)
        resource = kind if kind != "each" else f"each {random.randrange(200)}"
        result = site.send(f"soak {kind} {acks}", resource)
        sent[result.id] = (result, acks == "late")
        if n % 1000 == 0:
            print(f"{n} sent")
    return sent


def unread_since(worker: CeleryWorker) -> float | None:
    """Return since when a worker that was killed had left the answer of Redis unread, if it had: see `log_reading`."""
    told = re.findall(r"Redis is read (no more|again) at ([\d.]+)|( ready)\.", worker.log())
    how, at, _ = told[-1] if told else ("", "", "")
    return float(at) if how == "no more" else None


def kill_at_random(
    workers: list[CeleryWorker],
    done: Callable[[], float],
    postgres: PostgresServer | None,
    cuts: list[tuple[float, float]],
) -> Tally[str]:
    """A child about three times a second, a main process about each ten, until nearly all is done.

    And PostgreSQL twice, where it is the store. Notes in `cuts` when main processes died.
    """
    killed: Tally[str] = Tally()
    while (share := done()) < 0.9:
        if postgres and share > (killed["store"] + 1) * 0.3 and killed["store"] < 2:
            postgres.stop_immediately()
            postgres.start()
            killed["store"] += 1
        time.sleep(random.uniform(0.1, 0.5))  # the pace of the faults, not a wait for anything
        worker = random.choice(workers)
        if random.random() < 0.03 or (killed["child"] == 5 and not killed["main"]):
            killed["main"] += 1
            begin = time.monotonic()
            worker.kill()
            cuts.append((unread_since(worker) or begin, time.monotonic()))
            worker.start()
        elif children := worker.children():
            worker.kill_child(random.choice(children))
            killed["child"] += 1
    return killed


def states(site: Site, sent: dict[str, Any]) -> dict[str, str]:
    backend = site.client.backend
    return {task_id: backend.get_state(task_id) for task_id in sent}


def kept_by(redis: ValkeyBroker) -> list[str]:
    """Say what kombu keeps beside its queues, and for how long nobody may restore what a dead worker had."""
    with redis.client() as client:
        return [
            f"unacknowledged: {client.hlen('unacked')}, in the queue: {client.llen('celery')}",
            f"unacked_mutex: {client.ttl('unacked_mutex')} s left",
        ]


def keep(workers: list[CeleryWorker], redis: ValkeyBroker | None) -> None:
    """Keep what the workers logged, and what the broker recorded, where `SOAK_LOGS` says so."""
    if not (kept := os.environ.get("SOAK_LOGS")):
        return
    directory = Path(kept)
    directory.mkdir(parents=True, exist_ok=True)
    for worker in workers:
        (directory / f"{worker.hostname}.log").write_text(worker.log())
    if redis:
        shutil.copytree(redis.directory / "appendonlydir", directory / "aof", dirs_exist_ok=True)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "policies", [("wait",) * 2, ("requeue",) * 2, ("park",) * 2, ("requeue", "park")]
)
def test_ten_thousand_tasks_and_random_kills(
    site: Site,
    postgres: PostgresServer | None,
    redis: ValkeyBroker | None,
    policies: tuple[str, str],
) -> None:
    conf: dict[str, Any] = {
        "broker_transport_options": BACK_SOON,
        "worker_prefetch_multiplier": 2,
        "semaphore_take_up": 5.0,
    }
    site.client.conf.broker_transport_options = BACK_SOON
    env = {"LOG_NOTED": "1"}
    workers = [
        site.start(
            name=name, concurrency=8, conf=conf | {"semaphore_on_saturated": policy}, env=env
        )
        for name, policy in zip("ab", policies, strict=True)
    ]
    began = time.monotonic()
    cuts: list[tuple[float, float]] = []

    def entered() -> set[str]:
        return {task for stats in site.counter.all_stats().values() for task in stats["tasks"]}

    with ThreadPoolExecutor(1) as other:  # on a busy machine they run as soon as they are sent
        killing = other.submit(
            kill_at_random, workers, lambda: len(entered()) / TASKS, postgres, cuts
        )
        sent = send(site)
        killed = killing.result()

    def missing() -> list[str]:
        """Without a state, and not lost where Celery itself loses them when a main process is killed.

        With early acks: once it noted the permit and acknowledged the message. With Redis as the
        broker: once it popped the message, before it kept it as unacknowledged, as the broker's
        record shows.
        """
        stateless = [t for t, state in states(site, sent).items() if state in ("PENDING", "RETRY")]
        log = "".join(worker.log() for worker in workers)
        noted = set(re.findall(r"noted (\S+)", log))
        left = [task for task in stateless if sent[task][1] or task not in noted]
        record = redis.record() if redis and left else Record()
        return [task for task in left if not record.is_lost(task, cuts)]

    def story(tasks: list[str]) -> str:
        """What the workers' logs, and the record of the broker, say of these; `SOAK_LOGS` keeps all of it."""
        keep(workers, redis)
        lines = [line for worker in workers for line in worker.log().splitlines()]
        said = [line for line in lines if any(task in line for task in tasks[:3])]
        if redis:
            record = redis.record()
            said += [f"{task} in Redis: {record.story(task)}" for task in tasks[:3]]
            said += [f"main processes died: {cuts}", *kept_by(redis)]
        return "\n".join(said)

    def settled() -> bool:
        began_to_run = entered()
        print(f"{time.monotonic() - began:.0f} s: {len(began_to_run)} began")
        if len(began_to_run) <= 0.98 * TASKS:
            return False
        left = missing()
        print(f"without a state: {len(left)}, such as {left[:3]}")
        return not left

    wait_until(settled, 120, "every task has a state", interval=2, log=lambda: story(missing()))
    print(f"{time.monotonic() - began:.0f} s, killed: {dict(killed)}")
    stats, began_to_run = site.counter.all_stats(), entered()
    above = {n: s["max_inside"] for n, s in stats.items() if s["max_inside"] > LIMITS[n]}
    assert not above
    late = [task for task, (_, is_late) in sent.items() if is_late]
    lost = set(sent) - began_to_run
    print(f"never began: {len(lost)}, of them late: {len(lost & set(late))}")
    assert len(lost & set(late)) <= (killed["main"] if redis else 0), (
        "with late acks every task ran"
    )
    print(Tally(states(site, sent).values()), {n: stats[n]["max_inside"] for n in ("one", "five")})
    assert killed["main"], "a main process was killed as well"
    assert killed["store"] == (0 if postgres is None else 2)
    for claim in (Claim("soak one", None, 1), Claim("soak five", None, 5)):
        site.wait_all_back(claim, site.lease + 2)
