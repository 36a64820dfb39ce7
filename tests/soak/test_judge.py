"""The judge of the rolling soak finds each fault, and nothing in a life without one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Connection

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.store import Store
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.support.rabbit import Rabbit
from tests.support.servers import ValkeyServer

from .fleet import END_TIMEOUT_S, Life
from .judge import ADMITTED_S, TAKE_UP_S, Findings, Judge, Windows, bounds
from .kinds import Sent
from .places import Left, Place, RabbitBroker, ValkeyBroker, store_of
from .rates import Rate, exceeds
from .said import Noted, Published, Said, said
from .stuck import STEP_S, crashes_in, hangs_in, hung_as, is_ours, stuck_in_ours

LIMIT = 2
AFTER = TAKE_UP_S + 2 * ADMITTED_S


def life(way: str = "TERM", *, pid: int = 1, limit: int = LIMIT, **times: Any) -> Life:
    worker: Any = SimpleNamespace(pid=pid, hostname="w1")
    return Life(worker, way, limit, **{"began": 0.0} | times)


def ran(task: str, began: float, ended: float, how: str = "completed", pid: int = 1) -> list[Any]:
    """The entries of one run; how many were inside is of no interest."""
    name = f"{task} at {began}"
    return [(began, "entered", task, name, pid, 1), (ended, how, task, name, pid, 0)]


def judged(
    acks: str,
    log: list[Any],
    *lives: Life,
    noted: Noted | None = None,
    away: Windows = (),
    acknowledged: Sequence[tuple[Life, float]] = (),
    published: Sequence[Published] = (),
    undecodable: Sequence[tuple[Life, float]] = (),
    broker_delays: bool = False,
) -> Findings:
    """What the judge says of one limited task."""
    said = Said(noted, acknowledged=list(acknowledged), published=list(published))
    said.undecodable += undecodable
    judge = Judge(lives, {"t": said}, away, broker_delays=broker_delays)
    found = judge.findings({"t": Sent("park", acks, 0.05, 1.0)}, {"park": log})
    return found[False, acks]


TERM: dict[str, Any] = {"told": 9.0, "gone": 12.0}
QUIT: dict[str, Any] = {"told": 9.0, "cold": 9.0, "gone": 12.0}


@pytest.mark.parametrize("acks", ["early", "late"])
def test_a_task_that_ran_once(acks: str) -> None:
    found = judged(acks, ran("t", 1, 2), life(**TERM))
    assert (found.sent, found.completed, found.lost, found.faults) == (1, 1, [], {})


@pytest.mark.parametrize("acks", ["early", "late"])
def test_a_task_that_only_waited_is_lost(acks: str) -> None:
    for away in ([], [(1.5, 2.0)]):
        found = judged(acks, [], life("QUIT", **QUIT), away=away)
        assert found.lost == ["t"]
        assert "never" in found.faults["t"]


def test_an_early_task_is_lost_long_before_the_cold_end() -> None:
    cold, warm = life("QUIT", **QUIT), life(**TERM)
    assert not judged("early", [], cold, noted=Noted(cold, 8.9)).faults
    assert judged("early", [], cold, noted=Noted(cold, 5.0)).faults
    assert judged("early", [], warm, noted=Noted(warm, 8.9)).faults


@pytest.mark.parametrize("acks", ["early", "late"])
def test_a_message_that_a_cold_end_joined_to_another(acks: str) -> None:
    cold, warm = life("QUIT", **QUIT), life(**TERM)
    found = judged(acks, [], cold, undecodable=[(cold, 9.5)])
    assert (found.lost, found.faults) == (["t"], {})
    assert judged(acks, [], cold, undecodable=[(cold, 5.0)]).faults
    assert judged(acks, [], warm, undecodable=[(warm, 9.5)]).faults
    killed = life(**TERM | {"cold": 9.0}, hung=True)
    assert judged(acks, [], killed, undecodable=[(killed, 9.5)]).faults


def test_a_task_that_is_cut() -> None:
    log = ran("t", 8, 9.5, "failed")
    assert not judged("early", log, life("QUIT", **QUIT)).faults
    assert "warm" in judged("early", log, life(**TERM)).faults["t"]
    assert "late" in judged("late", log, life("QUIT", **QUIT)).faults["t"]


def test_a_task_that_runs_twice() -> None:
    """It counts at each end of its worker, and is a fault where there was none."""
    first, second = life("QUIT", **QUIT), life(pid=2, began=5.0)
    cut = [*ran("t", 8, 9.5, "failed"), *ran("t", 10, 11, pid=2)]
    assert not judged("late", cut, first, second).repeated
    assert judged("early", cut, first, second).repeated
    again = [*ran("t", 8, 9.5), *ran("t", 10, 11, pid=2)]
    found = judged("late", again, first, second)
    assert (found.repeated, found.faults) == (["t"], {})
    long_before = [*ran("t", 2, 3), *ran("t", 10, 11, pid=2)]
    in_time = [(first, 3.1)]
    found = judged("late", long_before, first, second, acknowledged=in_time)
    assert "ran again" in found.faults["t"]
    away = [(3.5, 4.0)]
    found = judged("late", long_before, first, second, acknowledged=in_time, away=away)
    assert (found.repeated, found.repeated_by_broker, found.faults) == ([], ["t"], {})
    assert (found.exposed, found.exposed_to_broker) == (0, 1)


def test_a_task_that_the_broker_had_delayed_when_it_was_stopped() -> None:
    """Only there, at that time, and only where the broker keeps what is delayed."""
    log = [*ran("t", 12, 13), *ran("t", 12.01, 13, pid=2)]
    lives = life(), life(pid=2)
    acknowledged = [(one, 13.0) for one in lives]

    def faults(*published: Published, delays: bool = True) -> Any:
        found = judged(
            "late",
            log,
            *lives,
            away=[(5.0, 10.0)],
            acknowledged=acknowledged,
            published=published,
            broker_delays=delays,
        )
        assert found.faults or (found.repeated, found.repeated_by_broker) == ([], ["t"])
        return found.faults

    for published in (Published(4.5, 1), Published(2.5, 3), Published(9.0, 1), Published(0.0, 12)):
        assert not faults(published)
    for published in (Published(4.5, 0), Published(1.0, 2), Published(9.5, 1), Published(4.0, 16)):
        assert faults(published)
    assert faults(Published(4.5, 1), delays=False)
    assert faults()


def test_a_loop_that_stood_still_acknowledges_late() -> None:
    """What ended long before its worker was told to end counts then as cut off, within bounds."""
    log = [*ran("t", 2, 3), *ran("t", 10, 11, pid=2)]
    first, second = life("QUIT", **QUIT), life(pid=2, began=5.0)
    for late in ([], [(first, 8.5)], [(second, 3.1)], [(first, 1.5)]):
        found = judged("late", log, first, second, acknowledged=late)
        assert (found.repeated, found.faults) == (["t"], {})
    assert judged("early", log, first, second, acknowledged=[(first, 1.5)]).faults
    end: dict[str, Any] = {"told": 20.0, "cold": 20.0, "gone": 21.0}
    assert "ran again" in judged("late", log, life(**end), second).faults["t"]


def test_a_task_that_runs_beside_itself() -> None:
    both = [*ran("t", 1, 4), *ran("t", 2, 3, "failed")]
    assert judged("late", both, life(**TERM)).repeated


def test_the_logs_are_read() -> None:
    log = "noted t at 1.5\npublished t at 2.5 for 1 s\nacknowledged t at 2.6\nTask park late[t] received\n"
    now = datetime.now().isoformat(" ", "milliseconds").replace(".", ",")  # noqa: DTZ005 - as logs do
    log += f"[{now}: CRITICAL/MainProcess] Can't decode message body: Error() [headers:{{'task': 'park', 'id': 't'}}]\n"
    published = [Published(2.5, 1)]
    it = life()
    dropped: Any = [(it, pytest.approx(time.monotonic(), abs=1.0))]
    assert said([(it, log)]) == {"t": Said(Noted(it, 1.5), 1, published, [(it, 2.6)], dropped)}


def entries(*times_and_inside: tuple[float, int]) -> list[Any]:
    return [(at, "entered", "t", f"{at}", 1, inside) for at, inside in times_and_inside]


def above(log: list[Any], *lives: Life) -> list[float]:
    return [bound.at for bound in bounds(log, lives) if bound.inside > bound.limit]


def test_above_the_limit() -> None:
    assert above(entries((1, 1), (2, 2), (3, 3)), life()) == [3]


def test_above_a_limit_that_was_lowered() -> None:
    """What was inside may stay, but no task may join it."""
    old, new = life(limit=4, gone=10.0), life(pid=2, limit=2, began=8.0)
    replaced = entries((9, 4), (12, 4))
    assert not above([*replaced, *entries((12 + AFTER - ADMITTED_S - 0.1, 4))], old, new)
    assert above([*replaced, *entries((12 + AFTER, 3))], old, new) == [12 + AFTER]


def test_the_limit_of_a_worker_that_is_gone_holds_until_another_acquires() -> None:
    old, new = life(limit=4, gone=10.0), life(pid=2, limit=2, began=8.0)
    assert not above(entries((30, 4)), old, new)


def test_a_limit_that_is_not_in_force_yet() -> None:
    assert above(entries((5, 3)), life(), life(pid=2, limit=4, began=6.0)) == [5]


@pytest.mark.parametrize(
    ("ours", "plain", "worse"),
    [
        ((10, 500), (0, 500), True),
        ((9, 500), (0, 500), False),
        ((30, 500), (30, 500), False),
        ((60, 500), (20, 500), True),
        ((0, 0), (0, 0), False),
    ],
)
def test_rates(ours: tuple[int, int], plain: tuple[int, int], worse: bool) -> None:
    assert exceeds(Rate(*ours), Rate(*plain)) is worse


FRAME = '  File "/x/{}", line 1{} in {}\n'.format


def test_a_worker_that_hangs() -> None:
    amqp = FRAME("amqp/transport.py", "", "write")
    handler = FRAME("celery/worker.py", "", "on_cold_shutdown")
    ours = FRAME("celery_semaphore/worker/main_process/bootstep.py", "", "stop")
    tail = f"Thread 1\n{ours}Current thread 2 (most recent call first):\n"
    assert not is_ours(hangs_in(tail + amqp + handler))
    assert is_ours(hangs_in(tail + amqp + ours))
    assert is_ours(hangs_in("it says nothing"))


def test_a_worker_that_hangs_in_the_handler_of_a_signal() -> None:
    """What the handler interrupted may have been ours."""
    waits = "Current thread 2 (most recent call first):\n" + FRAME("amqp/transport.py", "", "_read")
    handler = FRAME("celery/apps/worker.py", "", "_handle_request")
    ours = FRAME("celery_semaphore/worker/permits/ledger.py", "", "held")
    assert not is_ours(hangs_in(waits + handler + ours))
    assert is_ours(hangs_in(waits + ours + handler))
    assert is_ours(hangs_in(waits + ours))


def test_a_worker_that_hangs_in_what_celery_does_by_itself() -> None:
    """Our request stands between two methods of Celery's, where nothing of ours would be without us."""
    waits = "Current thread 2 (most recent call first):\n" + FRAME("/kombu/hub.py", "", "call_soon")
    celery, ours = "celery/worker/request.py", "celery_semaphore/worker/main_process/request.py"
    once = FRAME("celery_semaphore/core/once.py", "", "run")
    ends = FRAME(celery, "", "on_success") + FRAME(ours, "", "on_success")
    passed_on = FRAME(celery, "", "acknowledge") + once + FRAME(ours, "", "acknowledge")
    assert not is_ours(hangs_in(waits + passed_on + ends))
    assert is_ours(hangs_in(waits + FRAME(ours, "", "acknowledge") + ends))
    assert is_ours(hangs_in(waits + once + FRAME(ours, "", "acknowledge") + ends))
    assert is_ours(
        hangs_in(waits + passed_on + FRAME("celery_semaphore/worker/permits/note.py", "", "a"))
    )
    assert is_ours(hangs_in(waits + FRAME(celery, "", "acknowledge") + FRAME(ours, "", "_ended")))


@pytest.mark.parametrize("part", ["stops", "shuts down"])
@pytest.mark.parametrize(
    ("way", "had", "faults"),
    [("QUIT", STEP_S - 0.1, 0), ("QUIT", STEP_S + 0.1, 1), ("QUIT", None, 1), ("TERM", 0.1, 1)],
)
def test_a_worker_whose_shutdown_was_used_up_before_our_step(
    part: str, way: str, had: float | None, faults: int
) -> None:
    """Its handler of QUIT waits for the broker, for the pool, and its control for the broker once more: 15 s in all."""
    one = life(way, told=90.0, cold=None if way == "TERM" else 100.0, hung=True)
    begins = f"our step {part} at {100.0 + END_TIMEOUT_S - had}\n" if had else ""
    frames = FRAME("celery_semaphore/worker/messages/scheduler.py", "", "flush")
    log = f"our step stops at 100.5\n{begins}Current thread 2 (most recent call first):\n{frames}"
    assert len(list(stuck_in_ours([(one, log)]))) == faults
    assert ("cut short" in hung_as(one, log)) == (not faults or way == "TERM")


def test_a_worker_that_crashes() -> None:
    error = "[x] Unrecoverable error: A\nTraceback:\n" + FRAME("kombu/redis.py", ",", "close")
    after = "[x] something else\n" + FRAME("celery_semaphore/task.py", ",", "run")
    assert crashes_in(error + after) == ["/x/kombu/redis.py:1:close"]
    assert not is_ours(crashes_in(error + after))
    assert is_ours(crashes_in(error + FRAME("celery_semaphore/task.py", ",", "run")))
    assert is_ours(crashes_in(after))


@pytest.fixture(params=["valkey", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with store_of(request.param) as place:
        yield place


def refused(store: Store, holder: str) -> Ticket:
    answer = store.acquire([CLAIM], holder, Wait(Kind.PARK))
    assert isinstance(answer, Refusal)
    assert answer.ticket
    return answer.ticket


CLAIM = Claim("s", None, 1)


def test_what_is_left_in_a_store(place: Place) -> None:
    """A permit, a ticket, a message: each keeps it from being empty, also over a polite restart."""
    store = store_from_url(place.url, StoreOptions(prefix="celery-semaphore", lease=60.0))
    assert not place.left()
    store.acquire([CLAIM], "a")
    permit = place.left()
    ticket = refused(store, "b")
    waiter = place.left()
    store.attach(ticket, [CLAIM], b"a message")
    message = place.left()
    assert len({str(left) for left in (permit, waiter, message)}) > 1
    assert total(permit) < total(waiter) <= total(message)
    store.close()
    place.stop_politely()
    place.start()
    assert place.left() == message
    store = store_from_url(place.url, StoreOptions(prefix="celery-semaphore", lease=60.0))
    store.release("a", [CLAIM])
    assert place.left()
    store.release(ticket, [CLAIM])
    assert not place.left()
    store.close()


def total(left: Left) -> int:
    return sum(left.values())


def test_what_is_left_in_redis() -> None:
    with ValkeyBroker() as broker:
        with Connection(broker.url) as connection:
            queue = connection.SimpleQueue("celery")
            queue.put("a message")
            assert broker.left() == {"celery": 1}
            message = queue.get(timeout=2)
            assert broker.left() == {"unacked": 1, "unacked_index": 1}
            message.ack()
            queue.close()
        assert not broker.left()


@pytest.mark.rabbitmq
def test_what_is_left_in_rabbitmq(rabbitmq_server: Rabbit) -> None:
    broker = RabbitBroker({})
    broker.node = rabbitmq_server.node
    with Connection(broker.url) as connection:
        queue = connection.SimpleQueue("left")
        queue.put("a message")
        assert broker.left()["left"] == 1
        queue.get(timeout=2).ack()
        queue.close()
        connection.default_channel.queue_delete("left")
    assert "left" not in broker.left()


def test_a_valkey_that_stops_politely_keeps_its_data() -> None:
    with ValkeyServer(appendonly="yes") as server:
        with server.client() as client:
            client.set("a", "1")
        server.stop_politely()
        server.start()
        with server.client() as client:
            assert client.get("a") == b"1"
