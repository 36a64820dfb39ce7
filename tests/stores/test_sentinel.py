"""A failover that sentinels decide: the permits are where the new primary is."""

from __future__ import annotations

import contextlib
import logging
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Answer, Reason, Refusal
from celery_semaphore.core.store import Store
from celery_semaphore.errors import ConfigurationError, StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis.finder import Address
from celery_semaphore.stores.redis.primary import INTERVAL_S, PrimaryFinder
from celery_semaphore.stores.redis.url import pool_from_url, sentinels_from_url
from tests.conftest import need
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.sentinel import MASTER, OPTIONS, SentinelServer
from tests.support.servers import RedisServer

from .conftest import claim, permit_of

Open = Callable[..., Store]


@pytest.fixture
def sentinel() -> Iterator[SentinelServer]:
    need(RedisServer)
    with SentinelServer() as sentinel:
        yield sentinel


@pytest.fixture
def open_store(sentinel: SentinelServer) -> Iterator[Open]:
    stores = list[Store]()

    def open_store(lease: float, url: str = sentinel.url, **transport: Any) -> Store:
        options = StoreOptions(lease=lease, timeout=1.0, transport_options=OPTIONS | transport)
        stores.append(store_from_url(url, options))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def answered(store: Store, holder: str, limit: int = 2) -> Answer | None:
    with contextlib.suppress(StoreUnavailable):
        return store.acquire(claim(limit), holder)
    return None


def is_primary(server: RedisServer) -> bool:
    with server.client() as client:
        return bool(client.info("replication")["role"] == "master")


@pytest.mark.slow
def test_who_runs_keeps_its_permit_over_a_failover(
    open_store: Open, sentinel: SentinelServer
) -> None:
    store = open_store(6.0)
    held = [permit_of(store.acquire(claim(2), holder)) for holder in "ab"]
    primary = sentinel.primary()
    wait_until(lambda: followed(primary), 5, "both are at the replica")
    primary.kill()
    answer = wait_until(lambda: answered(store, "new"), 30, "an answer", log=sentinel.log)
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.RECOVERING
    assert set(store.renew(held).values()) <= {Renewal.OK, Renewal.RESTORED}
    store.release("a", claim(2))
    wait_until(lambda: isinstance(answered(store, "newer"), Permit), 10, "the grace ends")
    assert not isinstance(answered(store, "newest"), Permit), "b still runs"


def followed(primary: RedisServer) -> bool:
    with primary.client() as client:
        info = client.info("replication")
        replica = info["slave0"]
        return replica["state"] == "online" and replica["offset"] == info["master_repl_offset"]


def user_of_the_primary(open_store: Open, sentinel: SentinelServer) -> Store:
    """Return a store with an open connection to the primary, of which the replicas know the epoch."""
    store, primary = open_store(3.0, sentinel.url), sentinel.primary()
    assert isinstance(store.acquire(claim(1), "first"), Permit)
    store.release("first", claim(1))
    wait_until(lambda: followed(primary), 5, "the epoch is at the replica")
    return store


def answered_after_a_promotion(
    former: Store, open_store: Open, sentinel: SentinelServer
) -> Answer | None:
    """Let the new primary admit as many as it may; return what the other store is answered then."""
    primary = sentinel.primary()
    sentinel.promote()
    sentinel.wait_primary_is_not(primary)
    other = open_store(3.0, sentinel.primary().url)
    wait_until(lambda: isinstance(answered(other, "held", 1), Permit), 10, "the grace ends")
    answer = answered(former, "above", 1)
    assert is_primary(primary), "it has become a replica: this has tested nothing"
    return answer


@pytest.mark.slow
def test_a_former_primary_admits_none(open_store: Open, sentinel: SentinelServer) -> None:
    """An open connection leads to it, and for some ten seconds it goes on as a primary."""
    former = user_of_the_primary(open_store, sentinel)
    answer = answered_after_a_promotion(former, open_store, sentinel)
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.SATURATED


@pytest.mark.slow
def test_a_replica_that_hangs_keeps_none_at_the_former_primary(open_store: Open) -> None:
    """The sentinel waits for it, and meanwhile names the former primary to clients that ask SENTINEL MASTERS."""
    with SentinelServer(replicas=2, down_after_ms=20_000, failover_timeout_ms=60_000) as sentinel:
        primary = sentinel.primary()
        former = user_of_the_primary(open_store, sentinel)
        sentinel.replicas()[-1].pause()
        answer = answered_after_a_promotion(former, open_store, sentinel)
        assert sentinel.still_names() == primary.port, "it waits for no replica"
        assert isinstance(answer, Refusal)
        assert answer.reason is Reason.SATURATED


class CountingFinder(PrimaryFinder):
    """Counts how often a sentinel is asked."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        options = StoreOptions(timeout=0.5, transport_options=OPTIONS)
        monkeypatch.setattr("random.sample", lambda given, _: given)
        sentinels = sentinels_from_url(url, options)
        assert sentinels
        super().__init__(pool_from_url(url, options), sentinels)
        self.count = 0
        self.meanwhile: Callable[[], object] = lambda: None
        self._really = sentinels._named_by
        monkeypatch.setattr(sentinels, "_named_by", self._counted)

    def _counted(self, sentinel: Address, timeout: float) -> Address | None:
        self.count += 1
        self.meanwhile()
        return self._really(sentinel, timeout)

    def look_until(self, asked: int) -> None:
        def looked() -> bool:
            self.look()
            return self.count >= asked

        wait_until(looked, 10, "the sentinel is asked")


@pytest.fixture
def finder(sentinel: SentinelServer, monkeypatch: pytest.MonkeyPatch) -> CountingFinder:
    return CountingFinder(sentinel.url, monkeypatch)


def test_many_calls_ask_once(finder: CountingFinder, sentinel: SentinelServer) -> None:
    began = time.monotonic()
    for _ in range(100):
        finder.look()
    assert finder.place == ("127.0.0.1", sentinel.primary().port)
    assert finder.count <= 1 + (time.monotonic() - began) / INTERVAL_S


def test_silent_sentinels_do_not_hold_up_each_call(
    finder: CountingFinder, sentinel: SentinelServer
) -> None:
    finder.look()
    with sentinel.paused():
        finder.look_until(asked=2)
        asked = time.monotonic()
        while time.monotonic() < asked + 2 * INTERVAL_S:
            finder.look()
    assert finder.count == 2


def test_silence_and_its_end_are_told_once(
    finder: CountingFinder,
    sentinel: SentinelServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("celery_semaphore.stores.redis.primary.SILENT_S", 0)
    caplog.set_level(logging.INFO)
    finder.look()
    (port,) = sentinel.ports
    with sentinel.paused():
        finder.look_until(asked=3)
    finder.look_until(asked=4)
    finder.look_until(asked=5)
    primary = sentinel.primary().port
    silence = f"no sentinel answers with a primary (127.0.0.1:{port}: Timeout reading from socket)"
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        (
            "WARNING",
            f"A failover of the store would not be noticed: {silence}",
        ),
        ("INFO", f"The sentinels answer again: the primary '{MASTER}' is 127.0.0.1:{primary}"),
    ]


def test_the_primary_goes_on_without_its_sentinels(
    open_store: Open, sentinel: SentinelServer
) -> None:
    store = open_store(3.0)
    assert isinstance(store.acquire(claim(9), "first"), Permit)
    sentinel.kill()
    until = time.monotonic() + INTERVAL_S + 0.1
    while time.monotonic() < until:
        assert store.acquire(claim(9), "first")


def test_a_signal_handler_asks_nothing_meanwhile(finder: CountingFinder) -> None:
    finder.look()
    finder.meanwhile = finder.look
    finder.look_until(asked=2)
    assert finder.count == 2


def test_an_interruption_delays_the_next_question_only(finder: CountingFinder) -> None:
    def interrupt() -> None:
        finder.meanwhile = lambda: None
        raise KeyboardInterrupt

    finder.look()
    finder.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt):
        finder.look_until(asked=2)
    finder.look_until(asked=3)


def test_a_dead_sentinel_is_asked_once(
    sentinel: SentinelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(sentinel.ports[0]) as broken:
        broken.drop_answers(100)
        url = f"sentinel://127.0.0.1:{broken.port};{sentinel.url}"
        finder = CountingFinder(url, monkeypatch)
        finder.look()
        assert finder.count == 2
        finder.look_until(asked=3)
        assert broken.requests == 1


def test_silent_ones_leave_time_for_the_others(
    sentinel: SentinelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its whole time is as long as one sentinel may take."""
    with Proxy(sentinel.ports[0]) as silent:
        silent.hang()
        url = f"sentinel://127.0.0.1:{silent.port};{sentinel.url}"
        finder = CountingFinder(url, monkeypatch)
        finder.look()
        assert finder.place == ("127.0.0.1", sentinel.primary().port)


def test_one_connection_is_kept_and_made_anew(
    sentinel: SentinelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(sentinel.ports[0]) as proxy:
        finder = CountingFinder(f"sentinel://127.0.0.1:{proxy.port}", monkeypatch)
        finder.look_until(asked=1)
        handshake = proxy.requests - 1
        finder.look_until(asked=3)
        assert (proxy.connections, proxy.requests) == (1, handshake + 3)
        proxy.drop()
        finder.look_until(asked=4)
        assert not finder._silent
        assert proxy.requests == 2 * handshake + 4


@pytest.fixture
def another() -> Iterator[SentinelServer]:
    """Two sentinels that watch another primary by the same name."""
    with SentinelServer(sentinels=2) as another:
        yield another


def test_most_sentinels_decide(
    sentinel: SentinelServer, another: SentinelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One was restarted with a configuration from before a failover, or is cut off."""
    finder = CountingFinder(f"{sentinel.url};{another.url}", monkeypatch)
    elected = ("127.0.0.1", another.primary().port)
    finder.look()
    assert finder.place == elected
    finder.look_until(asked=5)
    assert finder.place == elected, "the one that disagrees is asked last"


def test_while_they_disagree_not_the_one_that_failed(
    sentinel: SentinelServer, another: SentinelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = CountingFinder(f"{sentinel.url};{another.url.partition(';')[0]}", monkeypatch)
    finder.look()
    places = [("127.0.0.1", each.primary().port) for each in (sentinel, another)]
    assert finder.place == places[0]
    finder.follow(redis.ConnectionError(), time.monotonic() + 1.0)
    assert finder.place == places[1]


def test_after_an_error_the_next_call_asks(
    finder: CountingFinder, caplog: pytest.LogCaptureFixture
) -> None:
    """The failed call had no time left; until the next question it would go on at a primary that was replaced."""
    finder.look()
    finder.follow(redis.TimeoutError(), time.monotonic())
    assert finder.count == 1
    finder.look()
    assert finder.count == 2
    assert not caplog.records


def test_a_late_answer_does_not_hold(finder: CountingFinder, sentinel: SentinelServer) -> None:
    """Another thread asked later, and was answered before."""
    finder.look()
    found = finder.place

    def ask_again() -> None:
        finder.meanwhile = lambda: None
        asked_at = time.monotonic()
        finder._go(("127.0.0.1", 1), asked_at)

    finder.meanwhile = ask_again
    finder.follow(redis.ConnectionError(), time.monotonic() + 1.0)
    assert finder.place == ("127.0.0.1", 1) != found


def test_no_sentinel_answers(open_store: Open) -> None:
    store = open_store(3.0, "sentinel://127.0.0.1:1", sentinel_kwargs={"password": "s3cret"})
    with pytest.raises(StoreUnavailable) as caught:
        store.acquire(claim(1), "first")
    assert str(caught.value).startswith(
        "The store did not answer: no sentinel answers with a primary (127.0.0.1:1: Error 111"
    )
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_name_that_no_sentinel_knows(open_store: Open) -> None:
    store = open_store(3.0, master_name="other")
    reason = "the sentinels watch no primary 'other', which the transport option master_name"
    with pytest.raises(StoreUnavailable, match=reason):
        store.acquire(claim(1), "first")
    with pytest.raises(ConfigurationError, match=reason):
        store.check()


@pytest.mark.parametrize("user", ["", ":s3cret@"])
@pytest.mark.parametrize("database", ["", "/1"])
def test_the_url_of_a_sentinel_without_its_scheme(
    open_store: Open, sentinel: SentinelServer, user: str, database: str
) -> None:
    store = open_store(3.0, f"redis://{user}127.0.0.1:{sentinel.ports[0]}{database}")
    with pytest.raises(ConfigurationError, match=r"to a sentinel.*sentinel://.*master_name"):
        store.check()


def test_an_option_that_sentinels_do_not_have(open_store: Open) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be read: .*'colour'"):
        open_store(3.0, sentinel_kwargs={"colour": "red"})
