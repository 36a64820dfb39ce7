"""What a lost connection to Redis had delivered runs soon after the server is back, and nothing runs twice."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import celery
import pytest
from celery import Celery
from celery.result import AsyncResult
from celery.worker import state
from kombu import Connection, Queue

from celery_semaphore.core.permit import Permit
from celery_semaphore.core.store import Store
from celery_semaphore.worker.celery_internals import note_times
from celery_semaphore.worker.keeping import lost_messages
from celery_semaphore.worker.keeping.lost_messages import WAIT_FOR_TIMEOUT, LostMessages
from celery_semaphore.worker.messages.broker import name_of_broker
from celery_semaphore.worker.messages.consumed_queues import of_broker
from tests.conftest import need
from tests.support.counter import Counter, CounterServer
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer
from tests.support.variants import also
from tests.support.worker import CeleryWorker

from ..conftest import Site, elsewhere, site_on
from ..messages.test_brokers import at_port
from ..messages.test_parking import ONE, deliveries, done, started
from .test_kept import LONG, ran_each_once, refusals, wait_until_kept
from .test_redelivery import drained, received, waiting

AOF = {"appendonly": "yes", "appendfsync": "always"}
HOLD = ("hold", 0.0, "w")
LATER = "Trying again in 4.00 seconds"  # the pause after the second attempt
NOWHERE = "redis://127.0.0.1:1/0"  # a connection would be refused
GIVEN_BACK = "messages of the lost connection go back"
pytestmark = pytest.mark.slow


@pytest.fixture
def broker() -> Iterator[ValkeyServer]:
    """One that loses nothing when it is killed."""
    need(ValkeyServer)
    with ValkeyServer(**AOF) as server:
        yield server


@pytest.fixture
def durable_site(
    broker: ValkeyServer,
    valkey: ValkeyServer,
    counter_server: CounterServer,
    counter: Counter,
    request: pytest.FixtureRequest,
) -> Iterator[Site]:
    """With its store and its results elsewhere; its lease hides nothing."""
    others = {"broker": broker.url} | elsewhere(request)
    for site in site_on(valkey, counter_server, **others):
        site.lease = 60.0
        yield site


def skip_before(version: tuple[int, int, int], what: str) -> None:
    if version > celery.VERSION:
        pytest.skip(f"Celery before {'.'.join(map(str, version))} {what}")


def away(broker: ValkeyServer, worker: CeleryWorker, *, keep_data: bool = True) -> None:
    """Kill the server, and start it once the worker has tried in vain to connect."""
    lost = worker.log().count("Cannot connect")
    broker.kill()
    worker.wait_until(lambda: worker.log().count("Cannot connect") > lost, 30, "it has noticed")
    if not keep_data:
        broker.wipe()
    broker.start()


def kept(
    site: Site, tasks: list[tuple[Any, ...]], **options: Any
) -> tuple[Store, CeleryWorker, list[AsyncResult]]:
    """Let a worker keep these tasks behind a permit that is taken outside."""
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    worker = site.start(concurrency=1, conf=LONG, **options)
    results = [site.send(name, *args) for name, *args in tasks]
    wait_until_kept(site, worker, len(tasks))
    return store, worker, results


@pytest.mark.parametrize(
    ("times", "pool"), [(1, "threads"), (2, "prefork"), *also((1, "prefork"), (2, "threads"))]
)
def test_what_was_kept_goes_on(
    durable_site: Site, broker: ValkeyServer, pool: str, times: int
) -> None:
    """In its order, although kombu could give nothing back; the visibility timeout is an hour."""
    site = durable_site
    store, worker, results = kept(site, [HOLD, ("late", "success", "w")] * 10, pool=pool)
    for time in range(times):
        away(broker, worker)
        wait_until(lambda: all(refusals(worker, r) > time + 1 for r in results), 30, "kept again")  # noqa: B023
    store.release("outside", [ONE])
    store.close()
    done(results, 30)
    ran_each_once(site, "w", results)
    assert started(site, "w") == [each.id for each in results]
    with broker.client() as client:
        wait_until(lambda: client.hlen("unacked") == 0, 10, "all are acknowledged")


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        ("call", "prefork"),
        ("call_late", "threads"),
        *also(("call", "threads"), ("call_late", "prefork")),
    ],
)
def test_what_was_prefetched_goes_on(
    durable_site: Site, broker: ValkeyServer, pool: str, name: str
) -> None:
    """And what runs, whose message may be unacknowledged, is not run beside itself."""
    if (name, pool) == ("call_late", "prefork"):
        skip_before(
            (5, 6, 3), "leaves the message of a late task that ran meanwhile unacknowledged"
        )
    site = durable_site
    many = {"worker_prefetch_multiplier": 8}
    worker = site.start(pool=pool, concurrency=1, conf=many)
    busy = site.send(name, None, "busy")
    wait_until(lambda: site.inside("busy") == 1, 20, "a task runs that does not end")
    prefetched = [site.send("free") for _ in range(2)] + [site.send("call", 0.0, "w")]
    later = site.send("free", countdown=1)
    wait_until(lambda: len(deliveries(site)) == 5, 20, "all are received")
    away(broker, worker)
    worker.wait_until(lambda: GIVEN_BACK in worker.log(), 20, "it gave them back")
    assert not busy.ready()
    site.let_go("busy")
    done([busy, *prefetched, later], 30)
    ran_each_once(site, "busy", [busy])
    ran_each_once(site, "w", prefetched[-1:])
    with broker.client() as client:
        wait_until(lambda: client.hlen("unacked") == client.llen("celery") == 0, 10, "none is left")


@pytest.mark.parametrize(
    ("how", "pool"),
    [("warm", "threads"), ("cold", "prefork"), *also(("warm", "prefork"), ("cold", "threads"))],
)
def test_a_worker_that_ends_before_it_is_connected_again(
    durable_site: Site, broker: ValkeyServer, pool: str, how: str
) -> None:
    """What was delivered to it goes back in its order, while its last task still runs."""
    if (how, pool) == ("warm", "prefork"):
        skip_before((5, 6, 3), "waits for ever for a plain task that its pool had not begun, too")
    site = durable_site
    store, worker, results = kept(site, [HOLD] * 10, name="ends", pool=pool)
    busy = site.send("call", None, "busy")
    wait_until(lambda: site.inside("busy") == 1, 20, "a task runs that does not end")
    # A pool of threads may yet begin what it has.
    queued = [] if pool == "threads" else [site.send("free")]
    back = 10 + len(queued)
    wait_until(lambda: len(deliveries(site)) == back + 1, 20, "it has received that, too")
    with broker.client() as client:
        wait_until(lambda: client.hlen("unacked") == back, 10, "what runs is acknowledged")
    broker.kill()
    worker.wait_until(lambda: LATER in worker.log(), 30, "it waits until it tries to connect again")
    broker.start()
    getattr(worker, how)()
    with broker.client() as client:
        wait_until(lambda: client.llen("celery") == back, 10, "they are back")
    left = {of_broker(name_of_broker(site.client), "celery")}
    wait_until(lambda: store.unconsumed(left) == left, 10, "it has said that it consumes no more")
    assert how == "cold" or not busy.ready()
    site.let_go("busy")
    worker.wait(20)
    assert worker.log().count("Connected to") == 1  # else it would end like any other one
    with broker.client() as client:
        assert client.hlen("unacked") == 0
    site.start(name="heir", concurrency=1, conf=LONG)
    store.release("outside", [ONE])
    store.close()
    done([*queued, *results], 30)
    ran_each_once(site, "w", results)
    assert started(site, "w") == [each.id for each in results]


def test_a_worker_that_ends_while_the_broker_is_away(
    durable_site: Site, broker: ValkeyServer
) -> None:
    """It says what becomes of its messages."""
    site = durable_site
    store, worker, _ = kept(site, [HOLD])
    broker.kill()
    worker.wait_until(lambda: "Cannot connect" in worker.log(), 30, "it has noticed")
    worker.warm()
    worker.wait(20)
    store.close()
    assert f"{WAIT_FOR_TIMEOUT}: OperationalError(" in worker.log()


def test_a_broker_that_comes_back_empty(durable_site: Site, broker: ValkeyServer) -> None:
    site = durable_site
    store, worker, _ = kept(site, [HOLD] * 3)
    away(broker, worker, keep_data=False)
    site.send("free").get(timeout=20)
    store.release("outside", [ONE])
    store.close()
    with broker.client() as client:
        assert client.llen("celery") == 0
    assert site.counter.stats("w")["entries"] == 0


def test_what_another_worker_got_meanwhile_is_left_to_it(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    """It runs there, with late acks: given back by its tag, which is the same, it would run twice."""
    site.lease = 60.0
    proxy = start_proxy(valkey.port)
    env = {"BROKER": at_port(site.broker, proxy.port)}
    first = site.start(name="first", concurrency=1, env=env)
    site.send("call", None, "busy")
    wait_until(lambda: site.inside("busy") == 1, 20, "its process is busy")
    result = site.send("call_late", None, "there")
    wait_until(lambda: len(deliveries(site)) == 2, 20, "it has received it")
    proxy.cut()
    first.wait_until(lambda: "Cannot connect" in first.log(), 20, "it has noticed")
    visible = {"visibility_timeout": 10, "unacked_restore_interval": 1}
    site.start(name="second", concurrency=1, conf={"broker_transport_options": visible})
    wait_until(lambda: site.inside("there") == 1, 30, "the second worker runs it")
    site.let_go("busy")
    proxy.restore()
    first.wait_until(lambda: GIVEN_BACK in first.log(), 30, "it is back")
    frees = [site.send("free") for _ in range(6)]  # more than the second one prefetches
    first.wait_until(
        lambda: "Task free[" in first.log(), 5, "it has what is behind it in the queue"
    )
    assert site.counter.stats("there")["entries"] == 1
    site.let_go("there")
    done(frees)
    done([result])
    ran_each_once(site, "there", [result])


# -- in this process, on a real server


def consumer(channel: Any) -> Any:
    return SimpleNamespace(
        connection=channel.connection.client,
        task_consumer=SimpleNamespace(channel=channel),
        pool=SimpleNamespace(uses_semaphore=True),
    )


class Running:
    """A request, as far as this is looked at."""

    def __init__(self, message: Any, *, ended: bool = False) -> None:
        self.message, self._already_cancelled = message, ended


@contextmanager
def loss(url: str, *, ended: bool = False) -> Iterator[tuple[LostMessages, Running]]:
    """Of three messages, of which the second one runs, or was ended by Celery."""
    lost = LostMessages()
    with received(url, [0, 1, 2]) as (channel, messages):
        request = Running(messages[1], ended=ended)
        state.active_requests.add(request)
        lost.note(consumer(channel), waiting([messages[2], messages[0]]))
        channel.qos._delivered.clear()  # as kombu does, which could give nothing back
    state.active_requests.discard(request)
    yield lost, request


def payloads(url: str, count: int) -> list[Any]:
    return [each.payload for each in drained(url, count)]


@pytest.mark.parametrize("how", ["runs", "is refused", "was ended by Celery"])
def test_a_message_of_a_process(valkey: ValkeyServer, how: str) -> None:
    """It is left alone until its process has refused it, or Celery has ended that because of the lost connection."""
    ended = how == "was ended by Celery"
    with loss(valkey.url, ended=ended) as (lost, running), Connection(valkey.url) as again:
        lost.give_back(consumer(again.channel()))
        if how == "is refused":
            lost.refused(running.message)
        left = payloads(valkey.url, 2 if how == "runs" else 3)
    expected = {"runs": [2, 0], "is refused": [1, 2, 0], "was ended by Celery": [2, 1, 0]}
    assert left == expected[how]


@pytest.mark.parametrize("how", ["runs", "is refused", "was ended by Celery"])
def test_a_message_of_a_process_of_a_worker_that_ends(valkey: ValkeyServer, how: str) -> None:
    """Its process may live for a while after a cold shutdown has ended it."""
    with loss(valkey.url, ended=how == "was ended by Celery") as (lost, running):
        if how == "is refused":
            lost.refused(running.message)
        lost.give_back_at_end(Celery(broker=valkey.url), 5.0)
    back = [2, 1, 0] if how == "is refused" else [2, 0]
    assert payloads(valkey.url, len(back)) == back


def test_a_connection_that_is_lost_while_they_go_back(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not noted any more, for the worker ends in that moment: then it connects for them."""
    with loss(valkey.url) as (lost, _), Connection(valkey.url) as again:
        with monkeypatch.context() as patch:
            patch.setattr(lost_messages, "restore", Mock(side_effect=again.connection_errors[0]))
            with pytest.raises(again.connection_errors):
                lost.give_back(consumer(again.channel()))
        lost.give_back_at_end(Celery(broker=valkey.url), 5.0)
    assert payloads(valkey.url, 2) == [2, 0]


def test_the_end_waits_for_no_silent_server(
    valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Each sentinel that does not answer may take the whole time, and is asked more than once."""
    with loss(valkey.url) as (lost, _), ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [each.getsockname()[1] for each in silent]
        app = Celery(broker=";".join(f"sentinel://127.0.0.1:{port}/0" for port in ports))
        app.conf.broker_transport_options = {"master_name": "one"}
        lost.give_back_at_end(app, 0.5)
        assert caplog.messages == [f"{WAIT_FOR_TIMEOUT}: it gave no answer within 0.5 s"]


def test_a_worker_that_lost_nothing_does_not_connect_again(
    valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor one that has given all back but what runs."""
    app = Celery(broker=NOWHERE)
    LostMessages().give_back_at_end(app, 5.0)
    with loss(valkey.url) as (lost, _), Connection(valkey.url) as again:
        lost.give_back(consumer(again.channel()))
        lost.give_back_at_end(app, 5.0)
    assert not caplog.messages
    assert payloads(valkey.url, 2) == [2, 0]


def test_kombu_gives_nothing_back_at_the_exit(valkey: ValkeyServer) -> None:
    """By then another worker may have it, by the same tag: the exit of this process would hand it to a third one."""
    lost = LostMessages()
    with received(valkey.url, [0]) as (channel, messages):
        restored_at_exit = channel.qos._on_collect
        lost.note(consumer(channel), waiting(messages))
        lost.give_back_at_end(Celery(broker=valkey.url), 5.0)
        with Connection(valkey.url) as other:
            assert Queue("tasks")(other.channel()).get() is not None
            restored_at_exit()
            assert payloads(valkey.url, 0) == []
        channel.qos._delivered.clear()


def test_a_message_is_known_by_its_time(valkey: ValkeyServer) -> None:
    """Another delivery of it is not given back, whichever worker has it."""
    lost = LostMessages()
    with received(valkey.url, [0, 1]) as (channel, messages), valkey.client() as client:
        note_times(channel.connection.client)
        for message in messages:
            channel.qos.append(message, message.delivery_tag)
        lost.note(consumer(channel), waiting(messages))
        channel.qos._delivered.clear()
        client.zincrby("unacked_index", 5.0, messages[0].delivery_tag)
        with Connection(valkey.url) as again:
            lost.give_back(consumer(again.channel()))
        assert [each.payload for each in drained(valkey.url, 1)] == [1]
        assert client.hlen("unacked") == 1
