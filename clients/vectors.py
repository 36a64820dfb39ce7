"""Write down the exact words of calls, as the Python store sends them, for a client to compare with its own.

Acquires and releases are those of ``call_all``, which makes no short calls; these have cases of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from operator import methodcaller
from typing import Any, cast

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.names import ProcessName
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.store import Acquire, Release
from celery_semaphore.core.ticket import DEFAULT_PRIORITY, Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.stores.redis.link import Link

from .scripts import NAMES, script

Case = dict[str, Any]
PROCESS = "PROCESS"  # stands for the name of the process, which each has of its own
RUN, EPOCH = "8d5f", 1_790_000_000_000_001
HOLDER, SESSION = "host/7:0123456789abcdef", "host/7:fedcba9876543210"
TICKET = Ticket("host/7:0011223344556677", DEFAULT_PRIORITY, EPOCH)
NAMED: Sequence[tuple[str, str | None]] = (
    *(("api", None), ("api", ""), ("api", "7"), ("a b", "c/d"), ("~", "!*'()"), ("%41", "{x}")),
    *(("Größe", "№ 1"), ("\U0001f600", '\x7f\n\t"\\'), ("a" * 128, None), ("a" * 129, "b" * 200)),
    *(("\U0001f600" * 40, "ä" * 22), ("x" * 45 + "ä" * 30, "y" * 46 + "€" * 30)),
    *(
        ("a.b-c_d", "A:b,c;d=e&f"),
        ("\x00\x1f", "\u2028\ufeff"),
        ("tenant", "\udbff\udfff".encode("utf-16", "surrogatepass").decode("utf-16")),
    ),
)


class Unanswered(Exception):
    """The words are known, and nothing else is asked for."""


class Recorder:
    """Stands for a link and its connection: it notes commands, and has a few answers."""

    semaphore_run_id = RUN

    def __init__(self, answers: Sequence[object] = ()) -> None:
        self.sent: list[list[str]] = []
        self._answers = list(answers)

    def ask(self, exchange: Callable[[Any], Any]) -> Any:
        return exchange(self)

    def send_packed_command(self, chunks: Sequence[bytes]) -> None:
        self.sent += commands(b"".join(chunks))

    def read_response(self) -> object:
        if not self._answers:
            raise Unanswered
        return self._answers.pop(0)


def commands(packed: bytes) -> Iterator[list[str]]:
    """Yield the words of each command; the digest of a script is replaced by its name."""
    names = {
        script(name).start(0, 0, whole=False).split(b"\r\n")[4].decode(): name for name in NAMES
    }
    at = 0

    def line() -> bytes:
        nonlocal at
        start, at = at, packed.index(b"\r\n", at) + 2
        return packed[start : at - 2]

    while at < len(packed):
        words = []
        for _ in range(int(line()[1:])):
            size = int(line()[1:])
            words.append(packed[at : at + size].decode())
            at += size + 2
        yield [names.get(word, word) for word in words]


@contextmanager
def unnamed_process() -> Iterator[None]:
    before, ProcessName.worker = ProcessName.worker, PROCESS
    try:
        yield
    finally:
        ProcessName.worker = before


def words(
    options: StoreOptions,
    epoch: int | None,
    call: Callable[[RedisStore], object],
    answers: Sequence[object] = (),
) -> list[list[str]]:
    """Return the words of the commands that this call sends."""
    recorder = Recorder(answers)
    store = RedisStore(cast("Link", recorder), options)
    store.epoch = epoch
    with unnamed_process(), suppress(Unanswered):
        call(store)
    return recorder.sent


def wait(timeout: float, ticket: Ticket | None, lease: float) -> Wait:
    priority, again = DEFAULT_PRIORITY, lease / 3
    limit = None if timeout == inf else timeout
    return Wait(Kind.BLOCK, ticket, priority, again, again, timeout=limit, session=SESSION)


def acquires() -> Iterator[Case]:
    """Yield acquires of many names, then with all that may differ otherwise."""
    for name, key in NAMED:
        yield acquire(name, key)
        yield acquire(name, key, timeout=0)
    for limit, weight in ((0, 1), (None, 3), (2**31 - 1, 2**31 - 1)):
        yield acquire("api", None, limit, weight)
    for timeout in (0.001, 0.0125, 1e6, 1e15):
        yield acquire("api", None, timeout=timeout)
    for lease, take_up in ((1.0, None), (0.0 + 100 / 3, 7.5), (3600.0, 60.0)):
        yield acquire("api", "7", options=StoreOptions(lease=lease, take_up=take_up))
    yield acquire("api", None, ticket=TICKET)
    yield acquire("api", None, options=StoreOptions(prefix="other: prefix ü"))
    yield acquire("api", None, epoch=None)


def acquire(
    name: str,
    key: str | None,
    limit: int | None = 5,
    weight: int = 1,
    *,
    timeout: float = inf,
    ticket: Ticket | None = None,
    options: StoreOptions = StoreOptions(),  # noqa: B008 - it is frozen
    epoch: int | None = EPOCH,
) -> Case:
    claim = Claim(name, key, limit, weight)
    how = wait(timeout, ticket, options.lease) if timeout else None
    return {
        "call": "acquire",
        "claim": [name, key, limit, weight],
        "prefix": options.prefix,
        "lease": [options.lease * 1000, options.grant_lease * 1000],
        "epoch": epoch,
        "timeoutMs": None if timeout == inf else timeout * 1000,
        "ticket": ticket.text if ticket else "",
        "words": words(options, epoch, methodcaller("call_all", [Acquire([claim], HOLDER, how)])),
    }


def permits(many: int, resources: int = 1) -> list[Permit]:
    """Return permits on these resources in turn."""
    return [
        Permit(
            f"{HOLDER}{n}",
            EPOCH + n,
            (Claim("api", str(n % resources), 5, n % 3 + 1),),
            1_790_000_000.000_001 + n,
            1_790_000_030.0 + n,
            EPOCH - n,
        )
        for n in range(many)
    ]


def other_calls() -> Iterator[Case]:
    """Yield one case of each other call, or a few."""
    claim, options = Claim("api", "7", 5, 2), StoreOptions()

    def case(call: str, send: methodcaller, *answers: object, **more: object) -> Case:
        return {"call": call, **more, "words": words(options, EPOCH, send, answers)}

    for name in (HOLDER, TICKET.text):
        yield case("release", methodcaller("call_all", [Release(name, [claim])]), name=name)
    for many in (1, 3, 100, 101):
        yield case("renew_many", methodcaller("renew", permits(many)), many=many)
    unchanged = [EPOCH, b"0" * 100], [EPOCH, b"0"]
    yield case("renew", methodcaller("renew", permits(101)), *unchanged, many=101, resources=1)
    few = [EPOCH, b"000"]
    yield case("renew", methodcaller("renew", permits(3, 2)), few, many=3, resources=2)
    for many in (0, 1, 2, 8):
        claims = [Claim("api", str(n % 2), 5, 1) for n in range(many)]
        waits = [HeldWait(Ticket(f"{HOLDER}{n}", 9, EPOCH), (c,)) for n, c in enumerate(claims)]
        yield case("ask", methodcaller("ask", SESSION, (), waits), many=many)
    yield overdue(case("overdue", methodcaller("reap")))
    more = [EPOCH, 1, [], [], []], [EPOCH, 0, [b"gpu", b"a/b"], [], []]
    yield case("reap", methodcaller("call_all", [Release(HOLDER, [claim])]), *more)
    yield case("snapshot", methodcaller("snapshot", "api/7", waiters=1))


def short_releases() -> Iterator[Case]:
    options = StoreOptions(lease=100 / 3, take_up=7.5, prefix="other")
    for name, key, limit in (("api", None, 5), ("a b", "", None), ("~", "№ 1", 1)):
        claims = [Claim(name, key, limit, 1)]
        released = words(options, EPOCH, methodcaller("release", HOLDER, claims))
        about = {"claim": [name, key, limit, 1], "prefix": "other", "lease": [100_000 / 3, 7_500.0]}
        yield {"call": "short_release", **about, "words": released}


def overdue(case: Case) -> Case:
    (sent,) = case["words"]
    sent[-1] = PROCESS
    return case


def vectors() -> str:
    cases = (*acquires(), *other_calls(), *short_releases())
    lines = [json.dumps(case, ensure_ascii=False) for case in cases]
    return "[\n" + ",\n".join(lines) + "\n]\n"
