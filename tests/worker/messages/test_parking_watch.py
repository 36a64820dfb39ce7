"""Whether a worker parks what must wait: what it finds at its store and its broker, and when it looks again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from kombu import Queue

from celery_semaphore.core.durability import Durability, Safety
from celery_semaphore.core.parking import BrokerFacts
from celery_semaphore.core.store import Store
from celery_semaphore.core.wait_policy import OnSaturated
from celery_semaphore.errors import SemaphoreError, StoreFull, StoreUnavailable
from celery_semaphore.settings import Settings
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.worker.messages import hourly_warnings, parking_watch
from celery_semaphore.worker.messages.brokers import Brokers
from celery_semaphore.worker.messages.hourly_warnings import SILENCE_S
from celery_semaphore.worker.messages.parking_watch import LOOK_S, ParkingWatch
from tests.conftest import need
from tests.stores.test_health import SECRET, forbidding
from tests.support.postgres import PostgresServer
from tests.support.proxy import Proxy
from tests.support.sentinel import OPTIONS, SentinelServer
from tests.support.servers import RedisServer

StartServer = Callable[..., RedisServer]
StartProxy = Callable[[int], Proxy]
Watch = Callable[..., ParkingWatch]
PARKED = "waiting tasks are parked in {}: {}"
NOT_OWN = "it writes no AOF, and it is not known to be the broker's own server"


def watching(app: Celery, store: Callable[[], Store]) -> ParkingWatch:
    settings = Settings.from_app(app)
    return ParkingWatch(app, settings, store, brokers=Brokers(app, settings, store))


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Return a watch that has begun, for this broker and this store."""

    def watch(broker: str, store: str, *, queues: tuple[Queue, ...] = (), **conf: Any) -> Any:
        app = Celery("watched", broker=broker, set_as_current=False)
        # Some tests reach one broker by several addresses.
        app.conf.update(semaphore_broker="ours")
        app.conf.update(semaphore_url=store, semaphore_timeout=1, **conf)
        if queues:
            app.conf.task_queues = queues
        settings = Settings.from_app(app)
        opened = stack.enter_context(closing(settings.open_store()))
        made = watching(app, lambda: opened)
        made.begin(waits=True)
        return made

    with ExitStack() as stack:
        yield watch


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [(each.levelno, each.getMessage()) for each in caplog.records]
    caplog.clear()
    return found


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=parking_watch.__name__)


def test_the_brokers_own_server_under_other_names(
    watch: Watch, redis: RedisServer, start_proxy: StartProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """By name, by address, by another port that leads to it, by its socket: it is one server."""
    elsewhere = f"redis://127.0.0.1:{start_proxy(redis.port).port}/1"
    named = redis.url.replace("127.0.0.1", "localhost")
    for store in (redis.url, redis.database(5), named, elsewhere):
        assert watch(redis.url, store).decision.parks
        (line,) = said(caplog)
        assert line == (logging.INFO, PARKED.format(store, "it is the broker's own server"))
    assert watch(named, elsewhere).decision.parks
    assert watch(f"redis+socket://{redis.socket}", redis.url).decision.parks


def test_another_server_at_the_same_address(
    watch: Watch, start_redis: StartServer, start_proxy: StartProxy
) -> None:
    """What matters is the server behind it."""
    one, other = start_redis(), start_redis()
    found = watch(one.url, other.url)
    assert (found.decision.parks, found.decision.why) == (False, NOT_OWN)


def test_a_proxy_that_changed_servers(
    watch: Watch,
    start_redis: StartServer,
    start_proxy: StartProxy,
) -> None:
    one, other = start_redis(), start_redis()
    proxy = start_proxy(one.port)
    found = watch(f"redis://127.0.0.1:{proxy.port}/0", one.url)
    assert found.decision.parks
    proxy.target_port = other.port
    proxy.drop()
    found.decide_again()
    assert not found.decision.parks


def test_a_broker_behind_sentinels(watch: Watch) -> None:
    """Tomorrow another server may answer there, even if it is the store's today."""
    need(RedisServer)
    with SentinelServer() as sentinels:
        primary = sentinels.servers[0].url
        behind = f"{sentinels.url}/0"
        options = {"broker_transport_options": OPTIONS}
        assert not watch(behind, primary, **options).decision.parks
        assert not watch(primary, behind, semaphore_transport_options=OPTIONS).decision.parks
        with sentinels.servers[0].client() as client:
            client.config_set("appendonly", "yes")
        assert watch(behind, behind, **options, semaphore_transport_options=OPTIONS).decision.parks


def test_several_brokers(watch: Watch, redis: RedisServer, valkey: RedisServer) -> None:
    assert not watch(f"{redis.url};{valkey.url}", redis.url).decision.parks


def test_a_broker_that_forbids_info(watch: Watch, start_redis: StartServer) -> None:
    server = start_redis()
    found = watch(forbidding("info", server), server.url)
    assert (found.decision.parks, found.decision.why) == (False, NOT_OWN)
    assert SECRET not in str(found.decision)


def test_a_store_that_forbids_info(watch: Watch, start_redis: StartServer) -> None:
    server = start_redis(appendonly="yes")
    found = watch(server.url, forbidding("info", server))
    assert not found.decision.parks
    assert "forbids INFO" in found.decision.why
    assert SECRET not in str(found.decision)


def test_persistence_that_is_switched_at_run_time(
    watch: Watch, start_redis: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_redis(appendonly="yes")
    found = watch("pyamqp://nobody.invalid//", server.url)
    assert said(caplog) == [(logging.INFO, PARKED.format(server.url, "it writes an AOF"))]
    with server.client() as client:
        client.config_set("appendonly", "no")
        found.decide_again()
        found.decide_again()
        ((level, line),) = said(caplog)
        assert level == logging.WARNING
        assert line.startswith("waiting tasks are kept by workers, not parked in ")
        assert not found.parks(OnSaturated.WAIT, 1)
        assert found.parks(OnSaturated.PARK, 1)
        client.config_set("appendonly", "yes")
        found.decide_again()
    assert said(caplog) == [(logging.INFO, PARKED.format(server.url, "it writes an AOF"))]
    assert found.parks(OnSaturated.WAIT, 1)


def test_a_quorum_queue_is_safer_than_an_aof(
    watch: Watch, start_redis: StartServer, postgres: PostgresServer
) -> None:
    queues = (Queue("plain"), Queue("safe", queue_arguments={"x-queue-type": "quorum"}))
    server = start_redis(appendonly="yes")
    found = watch("pyamqp://nobody.invalid//", server.url, queues=queues).decision
    assert (found.parks, found.weaker) == (False, True)
    assert "quorum queue 'safe'" in found.why
    assert watch("pyamqp://nobody.invalid//", server.url, queues=queues[:1]).decision.parks
    assert watch("pyamqp://nobody.invalid//", postgres.url, queues=queues).decision.parks


def test_memory_keeps_nothing(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    assert not watch("memory://", "memory://").decision.parks
    ((level, line),) = said(caplog)
    assert (level, "it ends with this process" in line) == (logging.INFO, True)


def test_a_store_that_evicts_is_left(
    watch: Watch, start_redis: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_redis(appendonly="yes")
    found = watch(server.url, server.url)
    said(caplog)
    with server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lfu")
    found.decide_again()
    assert not found.decision.parks
    ((level, line),) = said(caplog)
    assert (level, "allkeys-lfu" in line) == (logging.WARNING, True)


def test_a_server_that_is_nearly_full(
    watch: Watch, start_redis: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_redis(appendonly="yes")
    found = watch(server.url, server.url)
    said(caplog)
    with server.client() as client:
        used = int(client.info("memory")["used_memory"])
        client.config_set("maxmemory", int(used * 1.1))
        found.decide_again()
        found.decide_again()
        assert not found.parks(OnSaturated.WAIT, 1)
        assert not found.parks(OnSaturated.PARK, 1)
        ((level, line),) = said(caplog)
        assert (level, "of its maxmemory is used" in line) == (logging.WARNING, True)
        client.config_set("maxmemory", 2 * used)
        found.decide_again()
    assert found.parks(OnSaturated.WAIT, 1)
    ((level, line),) = said(caplog)
    assert (level, line) == (
        logging.INFO,
        PARKED.format(server.url, "it is the broker's own server"),
    )


def test_no_store_at_the_start(
    watch: Watch, start_redis: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_redis(appendonly="yes")
    server.kill()
    found = watch("pyamqp://nobody.invalid//", server.url)
    assert not found.decision.parks
    ((level, line),) = said(caplog)
    assert (level, "are kept by workers" in line) == (logging.WARNING, True)
    server.start()
    found.sweep()
    assert found.decision.parks


def test_no_broker_at_the_start(
    watch: Watch, start_redis: StartServer, start_proxy: StartProxy
) -> None:
    """Only an answer shows that it is the store's server; an AOF is seen without it."""
    server = start_redis()
    proxy = start_proxy(server.port)
    broker = f"redis://127.0.0.1:{proxy.port}/0"
    proxy.cut()
    found = watch(broker, server.url)
    assert not found.parks(OnSaturated.WAIT, 1)
    proxy.restore()
    found.sweep()
    assert found.parks(OnSaturated.WAIT, 1)
    with server.client() as client:
        client.config_set("appendonly", "yes")
    proxy.cut()
    assert watch(broker, server.url).decision.parks


def test_a_broker_without_a_connection_is_not_asked(
    kept: Kept, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its timeouts would delay each sweep; its last answer counts, and the store is asked as ever."""
    app = Celery("away", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    settings, connected, asked = Settings.from_app(app), list[bool](), list[float]()
    server: list[str] = []

    def facts(_: Celery) -> BrokerFacts:
        asked.append(clock[0])
        return BrokerFacts(server=server[0])  # or raises: it is away

    monkeypatch.setattr(parking_watch, "facts_of_broker", facts)
    kept.says = Durability("here", Safety.UNTOLD, "it writes no AOF", server="run 1")
    made = ParkingWatch(
        app,
        settings,
        lambda: kept,
        brokers=Brokers(app, settings, lambda: kept),
        connected=lambda: bool(connected),
    )
    made.begin(waits=True)
    made.sweep()
    made.sweep()
    assert (len(asked), kept.asked) == (1, 3), "it did not answer at the start"
    server.append("run 1")
    connected.append(True)
    made.sweep()
    assert (len(asked), made.decision.parks) == (2, True)
    server.clear()
    connected.clear()
    for look in range(3):
        clock[0] += LOOK_S
        made.sweep()
        assert (len(asked), kept.asked, made.decision.parks) == (2, 5 + look, True)


class Kept(MemoryStore):
    """A store that says what the test wants, and counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.says: Durability | Exception = Durability("here", Safety.LOGGED, "it writes an AOF")
        self.asked = 0

    def durability(self, most: int) -> Durability:
        self.asked += 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    for module in (hourly_warnings, parking_watch):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def following(kept: Kept, clock: list[float]) -> ParkingWatch:
    app = Celery("follows", broker="memory://", set_as_current=False)
    app.conf.update(semaphore_url="memory://", semaphore_park_max_size=100)
    made = watching(app, lambda: kept)
    kept.epoch = 7
    made.begin(waits=True)
    return made


def test_it_looks_once_a_minute(following: ParkingWatch, kept: Kept, clock: list[float]) -> None:
    for _ in range(3):
        clock[0] += LOOK_S / 4
        following.sweep()
    assert kept.asked == 1
    clock[0] += LOOK_S / 4
    following.sweep()
    assert kept.asked == 2


def test_a_message_that_the_store_cannot_keep_is_not_parked(
    following: ParkingWatch, kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    """Without it the message is sent to the store, refused there, and only then requeued."""
    kept.says = Durability("here", Safety.COMMITTED, "it is so", largest_payload=50)
    assert following.parks(OnSaturated.WAIT, 60)
    following.decide_again()
    found = [following.parks(OnSaturated.WAIT, size) for size in (50, 51, 101)]
    assert found == [True, False, False]
    following.kept("t", OnSaturated.WAIT, 51)
    assert "takes 51 bytes, and this store keeps at most 50" in caplog.text
    assert "semaphore_park_max_size is 100" in str(following.too_large(101))


def test_it_looks_when_another_server_answers(following: ParkingWatch, kept: Kept) -> None:
    kept.epoch = 8
    kept.says = Durability("there", Safety.UNTOLD, "it writes no AOF")
    following.sweep()
    assert not following.decision.parks
    following.sweep()
    assert kept.asked == 2


def test_a_store_that_does_not_answer_is_asked_with_the_next_sweep(
    following: ParkingWatch, kept: Kept, clock: list[float]
) -> None:
    says, kept.says = kept.says, StoreUnavailable("hung")
    clock[0] += LOOK_S
    following.sweep()
    assert not following.decision.parks
    kept.says = says
    following.sweep()
    assert following.decision.parks


def test_a_large_message_is_not_parked(
    following: ParkingWatch, caplog: pytest.LogCaptureFixture
) -> None:
    said(caplog)
    assert following.parks(OnSaturated.WAIT, 100)
    assert not following.parks(OnSaturated.WAIT, 101)
    assert said(caplog) == []  # it may find a permit
    following.kept("a", OnSaturated.WAIT, 101)
    following.kept("b", OnSaturated.PARK, 101)
    following.kept("c", OnSaturated.REQUEUE, 101)
    following.kept("d", OnSaturated.WAIT, 1)
    ((level, line),) = said(caplog)
    assert level == logging.WARNING
    assert line.startswith("task a is requeued, not parked: its message takes 101 bytes")


def test_each_reason_is_a_warning_an_hour(
    following: ParkingWatch, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    said(caplog)
    for _ in range(3):
        following.failed("a", SemaphoreError("no"))
        following.failed("b", StoreUnavailable("hung"))
    lines = [line for _, line in said(caplog)]
    assert [line.partition(" (")[0] for line in lines] == [
        "task a is requeued, not parked: no",
        "task b is requeued, not parked: hung",
    ]
    clock[0] += SILENCE_S
    following.failed("c", SemaphoreError("no"))
    assert len(said(caplog)) == 1


def test_a_full_store_takes_no_more_until_the_next_look(
    following: ParkingWatch, clock: list[float]
) -> None:
    following.failed("a", StoreUnavailable("hung"))
    assert following.parks(OnSaturated.WAIT, 1)
    following.failed("b", StoreFull("OOM"))
    assert not following.parks(OnSaturated.WAIT, 1)
    assert not following.parks(OnSaturated.PARK, 1)
    clock[0] += LOOK_S
    following.sweep()
    assert following.parks(OnSaturated.WAIT, 1)


def test_what_keeps_less_is_a_warning(
    following: ParkingWatch, kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    said(caplog)
    kept.says = Durability("there", Safety.COMMITTED, "it commits", doubt="its fsync is off")
    following.decide_again()
    assert said(caplog) == [
        (logging.WARNING, PARKED.format("there", "it commits, but its fsync is off"))
    ]


def test_nothing_is_said_where_no_task_leaves_it_open(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    app = Celery("says", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    watching(app, lambda: kept).begin(waits=False)
    assert said(caplog) == []


@pytest.mark.parametrize("parked", [0, 3])
@pytest.mark.parametrize("purged", [True, False])
def test_a_purged_broker_does_not_have_what_is_parked(
    kept: Kept, caplog: pytest.LogCaptureFixture, *, purged: bool, parked: int
) -> None:
    app = Celery("purges", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    kept.says = Durability("here", Safety.LOGGED, "it writes an AOF", parked=parked)
    watching(app, lambda: kept).begin(waits=False, purged=purged)
    lines = [line for _, line in said(caplog)]
    assert len(lines) == bool(purged and parked)
    assert all(line.startswith("3 parked task(s) still wait in here") for line in lines)
    assert all("semaphore purge <name>" in line for line in lines)


def test_workers_of_two_brokers_park_nothing_there(
    watch: Watch, redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The first one learns it by its next look; each warns once."""
    store = f"redis://127.0.0.1:{redis.port}/1"
    first = watch(redis.url, store, semaphore_broker="a")
    assert first.decision.parks
    said(caplog)
    second = watch(redis.url, store, semaphore_broker="b")
    first.decide_again()
    first.decide_again()
    lines = said(caplog)
    assert [level for level, _ in lines] == [logging.WARNING] * 2
    assert ["b and a" in lines[0][1], "a and b" in lines[1][1]] == [True, True]
    for watching_one in (first, second):
        decision = watching_one.decision
        assert not decision.parked_there(OnSaturated.WAIT)
        assert decision.parked_there(OnSaturated.PARK)
