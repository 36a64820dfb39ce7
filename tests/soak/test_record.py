"""The judge excuses what the broker's record shows as lost by kombu, and nothing that a worker received."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from .fleet import Life
from .judge import Judge
from .kinds import Sent
from .places import ValkeyBroker
from .record import ON_ITS_WAY_S, TICK_S, Command, Record, commands
from .said import Published, Said
from .test_judge import life

STOP, BACK = 100.0, 101.0  # when the broker stopped, and when it was there again
LIST = b"celery"
ANY = ["early", "late"]


def push(
    at: float, tag: str = "a", *, task: str = "t", key: bytes = LIST, way: bytes = b"LPUSH"
) -> Command:
    message = {"headers": {"id": task}, "properties": {"delivery_tag": tag}}
    return Command(at, [way, key, json.dumps(message).encode()])


def pop(at: float, *, key: bytes = LIST) -> Command:
    return Command(at, [b"rpop", key])


def keep(at: float, tag: str = "a") -> Command:
    return Command(at, [b"HSET", b"unacked", tag.encode(), b"[...]"])


def remove(at: float, tag: str = "a") -> Command:
    return Command(at, [b"HDEL", b"unacked", tag.encode()])


def is_excused(
    *found: Command, acks: str = "late", lives: tuple[Life, ...] = (), confirmed: float = 1.0
) -> bool:
    """What the judge says of a task that never ran, of which the broker recorded this."""
    said = {"t": Said(received=1, published=[Published(confirmed, 0)])}
    judge = Judge(lives, said, [(STOP, BACK)], Record(found))
    sent = {"t": Sent("requeue", acks, 0.05, 1.0)}
    findings = judge.findings(sent, {"requeue": []})[False, acks]
    assert findings.lost == ["t"]
    assert bool(findings.popped) is not bool(findings.faults)
    return bool(findings.popped)


@pytest.mark.parametrize("acks", ANY)
@pytest.mark.parametrize("before", [0.0, 2.0, ON_ITS_WAY_S])
def test_a_pop_that_the_stop_cut(before: float, acks: str) -> None:
    assert is_excused(push(1), pop(STOP - before), acks=acks)


@pytest.mark.parametrize("key", [b"celery.granted", b"celery\x06\x163"])
def test_a_pop_from_another_list(key: bytes) -> None:
    assert is_excused(push(1, key=key), pop(STOP, key=key))
    assert not is_excused(push(1), push(2, "b", key=key), pop(3, key=key), keep(3, "b"))


@pytest.mark.parametrize("acks", ANY)
def test_a_waiting_task_whose_new_message_is_popped(acks: str) -> None:
    """Its old one is acknowledged when the new one is confirmed, which may have been popped by then."""
    first = [push(1), pop(1), keep(1)]
    new = [push(STOP - 1, "b"), pop(STOP - 1)]
    assert is_excused(*first, *new, remove(STOP - 1), acks=acks)
    assert is_excused(*first, *new, remove(BACK), acks=acks)


@pytest.mark.parametrize("acks", ANY)
@pytest.mark.parametrize("at", [5.0, STOP - 1, STOP - 0.01, STOP, BACK, BACK + 1])
def test_a_task_that_a_worker_swallowed(at: float, acks: str) -> None:
    """It was received, and acknowledged without a new message, before the stop or right after it."""
    popped = min(at, STOP)
    received = [push(popped), pop(popped), keep(popped)]
    assert not is_excused(*received, remove(at), acks=acks, confirmed=popped)
    assert not is_excused(*received, acks=acks, confirmed=popped)
    again = [push(popped, "b"), pop(popped), keep(popped, "b"), remove(popped)]
    assert not is_excused(*received, *again, remove(at, "b"), acks=acks, confirmed=popped)


def test_a_confirmation_of_what_the_broker_never_had() -> None:
    assert not is_excused(push(1), pop(1), keep(1), remove(STOP), confirmed=STOP)


def test_a_pop_that_nothing_cut() -> None:
    """A channel that was closed, say, while its pop was on its way."""
    earliest = STOP - ON_ITS_WAY_S - TICK_S
    assert is_excused(push(1), pop(earliest + 0.1))
    assert not is_excused(push(1), pop(earliest - 0.1))
    assert not is_excused(push(1), pop(BACK + 0.1))


def test_a_pop_that_a_lost_worker_cut() -> None:
    ends: dict[str, Any] = {"told": 50.0, "cold": 50.0, "gone": 60.0}
    log = [push(1), pop(55)]
    assert is_excused(*log, lives=(life("QUIT", hung=True, **ends),))
    assert is_excused(*log, lives=(life("QUIT", crashed=True, **ends),))
    assert not is_excused(*log, lives=(life("QUIT", **ends),))
    assert not is_excused(push(1), pop(61), lives=(life("QUIT", hung=True, **ends),))


def test_a_message_that_lies_somewhere_still() -> None:
    assert not is_excused(push(1))
    assert not is_excused(push(1, key=b"celery.granted"), push(2, "b"), pop(STOP))


def test_a_copy_that_was_popped_excuses_no_newer_message() -> None:
    copies = [push(1), pop(STOP), push(BACK, "b"), pop(BACK)]
    assert not is_excused(*copies, keep(BACK, "b"), remove(BACK, "b"))
    assert not is_excused(*copies, keep(BACK, "b"))
    older = [push(1), push(2, "b"), pop(3), keep(3), pop(STOP)]
    assert not is_excused(*older), "the older one is not acknowledged"
    assert is_excused(*older, remove(BACK))


def test_a_message_that_was_restored() -> None:
    restored = [push(1), pop(1), keep(1), remove(STOP - 1), push(STOP - 1, way=b"RPUSH")]
    assert is_excused(*restored, pop(STOP))
    assert not is_excused(*restored, pop(STOP), keep(BACK))
    assert not is_excused(*restored, pop(STOP), remove(BACK)), "by the worker that had it before"
    other = push(STOP - 2, "b", task="another")
    assert is_excused(*restored[:-1], other, restored[-1], pop(STOP)), "it is the next to be popped"


def test_a_command_that_cannot_be_replayed() -> None:
    with pytest.raises(ValueError, match="replay"):
        Record([Command(1.0, [b"LREM", LIST, b"0", b"x"])])
    with pytest.raises(IndexError):
        Record([pop(1)])


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (file := tmp_path / "x.aof").write_bytes(b"REDIS0011")
    with pytest.raises(ValueError, match="command"):
        list(commands(file))


def test_the_record_of_a_broker() -> None:
    """Messages that kombu keeps, acknowledges and puts back, and one that is popped when it stops."""
    with ValkeyBroker() as broker:
        with Connection(broker.url) as connection:
            queue = connection.SimpleQueue("celery")
            for task in ("acknowledged", "restored", "kept"):
                queue.put("", headers={"id": task})
            queue.get(timeout=2).ack()
            queue.get(timeout=2).requeue()
            for _ in ("restored", "kept"):
                queue.get(timeout=2)
            for task in ("popped", "lying"):
                queue.put("", headers={"id": task}, priority=3)
            with broker.client() as client:
                before = time.monotonic()
                client.brpop(["celery", "celery\x06\x163"], 2)
            broker.stop_politely()
            broker.start()
            queue.put("", headers={"id": "afterwards"})
            with broker.client() as client:
                client.rpop("celery")
        record = broker.record()
        names = ("acknowledged", "restored", "kept", "lying", "never")
        assert [record.popped(task) for task in names] == [None] * len(names)
        assert "removed" in record.story("acknowledged")
        at = record.popped("popped")
        assert at is not None
        assert before - TICK_S - 0.1 <= at <= before + 0.1
        assert record.popped("afterwards") is not None
