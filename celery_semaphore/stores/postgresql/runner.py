"""Call the functions of the server, with the arguments that all of them have, and continue what they began."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.store import HandedOn
from ...errors import SemaphoreError
from ..durations import REPEATS, OtherLease
from ..encoding import ROUNDS, microseconds
from .answers import texts
from .broken import Broken
from .connection import Composite, Parameter, Row, is_one_resources, passed_over_if_busy
from .names import original

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.store import Outgoing
    from ..durations import Durations
    from ..options import StoreOptions
    from .link import Link
    from .schema import SchemaName

BATCH = 100  # resources or permits in one call; more would delay others
SHORTEST_MS = 20  # to wait for a lock of another call


class Runner:
    """Calls functions over a link, and notes the store's epoch from their answers."""

    def __init__(
        self, link: Link, place: SchemaName, options: StoreOptions, durations: Durations
    ) -> None:
        self.epoch: int | None = None
        self._durations = durations
        # Milliseconds to wait for a lock: the server says that it was locked before its answer counts as lost.
        self.lock_timeout = round(link.timeout * 900)
        self._link = link
        self._place = place
        self._now = options.now
        self._broken = Broken()

    def reap(self, names: list[str]) -> Outgoing:
        """Reap these resources; skip those that another call has locked, which become overdue again."""
        try:
            return self._reap(names, self.lock_timeout // 4)
        except SemaphoreError as error:
            if not is_one_resources(error):
                raise
        outgoing: Outgoing = frozenset()
        for name in names:
            with passed_over_if_busy(), self._broken.passed_over(name):
                outgoing |= self._reap([name], SHORTEST_MS)
        return outgoing

    def _reap(self, names: list[str], lock_timeout: int) -> Outgoing:
        outgoing: Outgoing = frozenset()
        for start in range(0, len(names), BATCH):
            some = names[start : start + BATCH]
            said = self.run("reap", some, lock_timeout=lock_timeout)
            outgoing |= self.handed_on(some, said, lock_timeout).outgoing
        return outgoing

    def handed_on(
        self, names: list[str], said: list[Row], lock_timeout: int | None = None
    ) -> HandedOn:
        """Continue the hand-on until it is done; return what all its calls handed on.

        A head with claims on other resources is tried in a call that declares them all.
        """
        outgoing, granted = set[str](), set[str]()
        for _ in range(ROUNDS):
            ((epoch, again, needed, found, nonces),) = said
            self.epoch = int(epoch)
            outgoing.update(texts(found))
            granted.update(map(original, texts(nonces)))
            more = texts(needed)
            if again != "t" and not more:
                break
            # Hand on at the given resources first.
            names = list(dict.fromkeys([*names, *more]))
            said = self.run("reap", names, lock_timeout=lock_timeout)
        return HandedOn(frozenset(outgoing), frozenset(granted))

    def run(
        self, operation: str, *parameters: Parameter, lock_timeout: int | None = None
    ) -> list[Row]:
        """Call an operation with what every call brings, a ``v1_call``; repeat it with the store's durations (A16)."""
        for _ in range(REPEATS):
            try:
                return self._run(operation, parameters, lock_timeout)
            except OtherLease as error:
                self._durations.adopt(error.in_force)
        return self._run(operation, parameters, lock_timeout)

    def _run(
        self, operation: str, parameters: Sequence[Parameter], lock_timeout: int | None
    ) -> list[Row]:
        clock = None if self._now is None else microseconds(self._now())
        waits = self._lock_timeout_of(lock_timeout)
        call = Composite((clock, *self._durations.in_force, self.epoch, waits))
        return self.call(operation, call, *parameters)

    def _lock_timeout_of(self, given: int | None) -> int:
        """Return the milliseconds that a call waits for a lock."""
        return self.lock_timeout if given is None else given

    def call(self, operation: str, *parameters: Parameter) -> list[Row]:
        return self._link.call(self._place.function(operation), parameters)
