"""Several stores that are asked the same at the same moment, and must give the same answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import zip_longest
from typing import Any, TypeVar

from celery_semaphore.core.store import Store
from celery_semaphore.testing.clock import Clock

Answer = TypeVar("Answer")
ROUNDING_S = 1e-4  # Redis rounds the mean time that permits are held, the others do not


@dataclass(frozen=True)
class Learnt:
    """What a client has learnt of a store: its epoch, and its durations, or else the client's own."""

    epoch: int | None
    in_force: tuple[int, int]


@dataclass(frozen=True)
class Server:
    """A store, and how its server loses all data."""

    store: Store
    forget: Callable[[], object]


class Different(AssertionError):
    """The stores gave different answers."""


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Yield each part in which two answers differ; times may differ by what is rounded."""
    if one == other:
        return
    if type(one) is type(other) and is_dataclass(one):
        for field in fields(one):
            name = field.name
            yield from differences(getattr(one, name), getattr(other, name), f"{where}.{name}")
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        for n, pair in enumerate(zip_longest(one, other)):
            yield from differences(*pair, f"{where}[{n}]")
    elif not _rounded_alike(one, other):
        yield f"{where}: {one!r} != {other!r}"


def _rounded_alike(one: Any, other: Any) -> bool:
    return isinstance(one, float) and isinstance(other, float) and abs(one - other) <= ROUNDING_S


class Trio:
    """Asks each store; the first one, the reference, gives the answer.

    All stores share one connection for all clients: what tells clients apart is what each has learnt.
    """

    def __init__(self, servers: Mapping[str, Server], clock: Clock) -> None:
        self._servers = servers
        self.clock = clock

    def __len__(self) -> int:
        return len(self._servers)

    def ask(self, question: Callable[[Store], Answer], learnt: Learnt) -> tuple[Answer, Learnt]:
        """Ask each store as a client that has learnt this; return the answer, and what the client knows then."""
        answers = {name: self._ask(each, question, learnt) for name, each in self._servers.items()}
        (reference, expected), *others = answers.items()
        found = [
            f"{reference} and {name}, at {difference}"
            for name, answer in others
            for difference in differences(expected, answer)
        ]
        if found:
            raise Different("\n".join(found))
        return expected

    def _ask(
        self, server: Server, question: Callable[[Store], Answer], learnt: Learnt
    ) -> tuple[Answer, Learnt]:
        store = server.store
        store.epoch, store.in_force = learnt.epoch, learnt.in_force
        answer = question(store)
        return answer, Learnt(store.epoch, store.in_force)

    def forget(self) -> None:
        for server in self._servers.values():
            server.forget()


def in_order(grants: Sequence[Any]) -> list[Any]:
    """Sort messages that were taken together: a store may return them in any order."""
    return sorted(grants, key=lambda grant: (grant.ticket.rank, grant.token))
