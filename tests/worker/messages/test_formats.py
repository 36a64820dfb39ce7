"""A release that meets what a later one wrote: in the store, in a parked message, in a message's header."""

from __future__ import annotations

import json
import re
import time

import pytest
from celery import Celery

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.formats import FORMAT, NewerFormat
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import LONGEST_DELAY_S
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.worker.messages import bring_back as bringing
from celery_semaphore.worker.messages.header_names import HOLDER
from celery_semaphore.worker.messages.hourly_warnings import HourlyWarnings
from celery_semaphore.worker.messages.parked import packed, unpacked
from celery_semaphore.worker.messages.ticket_header import TICKET, Carried, sent_back
from celery_semaphore.worker.pool_process import refusal
from celery_semaphore.worker.pool_process.destination import Destination
from celery_semaphore.worker.pool_process.refused_attempt import Refused
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from ..conftest import Site, queued, valkey_only
from ..requests import delivered, limited
from .test_headers import app, carried
from .test_waiting import Broker, a_message, bring_back, parked, three_granted

__all__ = ["app"]  # a fixture
NEWER = FORMAT + 1
OF_X = Ticket("x:0", 0, 1_700_000_000_000_000)
HEADER = f"{NEWER} 9f86d081.1 something: new {{é}}"
SAID = rf"has format {NEWER}, and this release of celery_semaphore reads up to format {FORMAT}: upgrade"


def made_newer(payload: bytes) -> bytes:
    head, _, body = payload.partition(b"\n")
    return json.dumps(json.loads(head) | {"format": NEWER, "later": "on"}).encode() + b"\n" + body


def test_a_parked_message_says_its_format() -> None:
    payload = packed(a_message(), "celery", "celery", 2)
    assert json.loads(payload.partition(b"\n")[0])["format"] == FORMAT
    with pytest.raises(NewerFormat, match=SAID):
        unpacked(made_newer(payload))


def test_a_newer_parked_message_stays_in_the_store(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go out; it is offered again, whole, and a warning an hour says so."""
    monkeypatch.setattr(bringing, "_warnings", HourlyWarnings(bringing.logger))
    now = 1000.0
    store = MemoryStore(StoreOptions(now=lambda: now))
    three_granted(store)
    old = packed(a_message(), "celery", "celery", 2)
    (ticket,) = [parked(store, "d")]
    claims, newer = [Claim("one", None, 1)], made_newer(old)
    store.set_limit(4, "one")
    store.attach(ticket, claims, newer)
    broker = Broker()
    bring_back(store, broker).run()
    assert len(broker.queues) == 3
    (record,) = [each for each in caplog.records if "stays in the store" in each.getMessage()]
    assert re.search(SAID, record.getMessage())
    assert store.take(frozenset({"one"})) == []
    now += 30.0
    due = store.reap()
    assert newer in [grant.payload for grant in store.take(due)]
    now += 30.0
    assert store.reap() == due
    bring_back(store, broker).run()
    assert len([each for each in caplog.messages if "stays in the store" in each]) == 1


def test_an_unreadable_parked_message_holds_up_no_others(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore(StoreOptions(now=lambda: 1000.0))
    store.set_limit(0, "one")
    claims = [Claim("one", None, 1)]
    store.attach(parked(store, "d"), claims, b"damaged")
    for holder in "abc":
        parked(store, holder)
    store.set_limit(4, "one")
    broker = Broker()
    bring_back(store, broker).run()
    assert len(broker.queues) == 3
    assert [each for each in caplog.messages if "cannot be read" in each]


def test_a_parked_message_without_a_broker_can_be_read() -> None:
    """It was parked before messages named theirs."""
    head, _, body = packed(a_message(), "celery", "celery", 2).partition(b"\n")
    named = json.loads(head)
    del named["broker"]
    assert unpacked(json.dumps(named).encode() + b"\n" + body).broker == ""


def test_a_newer_header_is_passed_on() -> None:
    """Its first two words are the same in all formats; each attempt is another message."""
    back = sent_back("x:0123", 3, None, 2, HEADER)
    assert back == HEADER.replace("9f86d081.1", "0123.4")
    assert sent_back("x:0123", 3, OF_X, 2, f"{FORMAT} a.1 1 t") == f"{FORMAT} 0123.3 2  {OF_X}"
    assert Carried.read(back) == Carried(NEWER, "0123.4", "something: new {é}")


def test_a_newer_header_is_no_foreign_one(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    """It says which message it is; of its ticket this release understands nothing."""
    assert carried(app, HEADER) == ("9f86d081.1", None)
    assert not caplog.records


def refused(app: Celery, header: str, holder: str = "x:0") -> float:
    """The delay of a delivery with this header."""
    task = app.tasks["limited"] if "limited" in app.tasks else limited(app)
    with pytest.raises(Refused) as caught:
        delivered(task, "IGNORED", **{TICKET: header, HOLDER: holder})
    assert caught.value.attempt.destination is Destination.PUBLISHED
    return caught.value.attempt.delay


def test_what_only_a_newer_worker_can_run_comes_ever_more_slowly(
    app: Celery, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rolling upgrade ends in minutes; if none does, the message goes round for as long as it lives."""
    monkeypatch.setattr(refusal, "_warnings", HourlyWarnings(refusal.logger))
    header = f"{NEWER} 9f86d081.1 something new"
    for times in range(12):
        holder = f"x:{times}"
        delay = refused(app, header, holder)
        assert min(2.0**times, LONGEST_DELAY_S) <= delay <= min(5 * 2.0**times, LONGEST_DELAY_S)
        header = sent_back(holder, 1, None, times, header)
    (warned,) = [each for each in caplog.messages if "cannot be read" in each]
    assert re.search(rf"task limited\[x\] waits \d\.\d s: its message.*{SAID}", warned)
    for named in ("9f86d081.999999999", "9f86d081", "."):  # by a sender outside
        assert 1.0 <= refused(app, f"{NEWER} {named} new") <= LONGEST_DELAY_S


def test_a_message_with_a_newer_header_waits(site: Site, valkey: ValkeyServer) -> None:
    """It goes back with nothing changed but its own name, again and again; others run meanwhile."""
    worker = site.start(concurrency=1, conf={"semaphore_requeue_max_delay": 0.5})
    came: set[str] = set()

    def goes_round() -> bool:
        came.update(h[TICKET] for h in queued(valkey) if TICKET in h)
        return len(came) >= 3

    newer = site.send("call", 0.0, "w", headers={TICKET: HEADER})
    wait_until(goes_round, 20, "it went back twice")
    assert site.send("call", 0.0, "w").get(timeout=10)
    assert {each.split(" ", 2)[0] for each in came} == {str(NEWER)}
    assert {each.split(" ", 2)[2] for each in came} == {HEADER.split(" ", 2)[2]}
    assert len({each.split(" ", 2)[1] for each in came}) == len(came)
    assert not newer.ready()
    assert site.counter.stats("w")["entries"] == 1
    assert re.search(
        rf"task call\[{newer.id}\] waits \d\.\d s: its message cannot be read: its header {SAID}",
        worker.log(),
    )


@valkey_only
def test_a_store_of_a_newer_format(site: Site, valkey: ValkeyServer) -> None:
    """The tasks of this release wait, and it says why; what runs ends, though its permit ends with its lease."""
    worker = site.start(concurrency=3, conf={"semaphore_requeue_max_delay": 0.5})
    (running,) = site.occupy()
    set_format(valkey, NEWER)
    waits = site.send("hold", 0.0, "w")
    log = rf"task hold\[{waits.id}\] waits \d\.\d s: the store cannot be asked: the store {SAID}"
    wait_until(lambda: re.search(log, worker.log()), 10, "it says why")
    assert site.send("free").get(timeout=10)
    late = site.start(name="late", concurrency=1, conf={"semaphore_requeue_max_delay": 0.5})
    assert re.search(rf"WARNING.*Limited tasks wait: the store {SAID}", late.log())
    assert "CRITICAL" not in late.log()
    wait_until(lambda: "lost its permit" in worker.log(), 10, "its lease is over")
    assert re.search(rf"permits \(1\) cannot be renewed, .*: the store {SAID}", worker.log())
    assert site.counter.stats("w")["entries"] == 0
    site.let_go()
    assert running.get(timeout=10) is None
    given_up = re.compile(rf"1 release\(s\) given up, their leases have ended: the store {SAID}")
    wait_until(lambda: given_up.search(worker.log()), 10, "its release is given up")
    time.sleep(1.5)  # three attempts
    for once in ("lost its permit", "cannot be renewed", "is released by the main", "given up"):
        assert worker.log().count(once) == 1, once
    assert "Traceback" not in worker.log()
    assert not waits.ready()
    set_format(valkey, FORMAT)
    assert waits.get(timeout=30) is None


def set_format(valkey: ValkeyServer, number: int) -> None:
    with valkey.client(1) as client:
        client.hset("{celery-semaphore}:epoch", "format", str(number))
