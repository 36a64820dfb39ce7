"""Make acquires and releases of the common case by short scripts; see lua/_short.lua."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...core.ticket import Ticket
from ..encoding import microseconds
from . import scripts
from .backoff import Backoff
from .connection import pack, run_id_of
from .runner import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.message_id import MessageId
    from ...core.wait import Wait
    from ..durations import Durations
    from ..encoding import ResourceClaim
    from ..options import StoreOptions
    from .connection import Word
    from .keys import Keys
    from .runner import Runner, ShortCommand
    from .scripts import Script

    LongCall = tuple[list[ResourceClaim], Sequence[Word], tuple[int, bytes]]

COMMON = ("epoch", "index")
PARTS = ("holders", "ledger", "released", "tickets")


@dataclass(frozen=True, slots=True)
class ShortResource:
    """Keep of one resource what its short calls send, and whether the next ones are worth a try."""

    keys: bytes
    of_acquires: bytes  # further keys
    # The first acquire is not: a resource that was not used lately has no record of limits.
    acquires: Backoff = field(default_factory=lambda: Backoff(left_out=1))
    releases: Backoff = field(default_factory=Backoff)


class ShortCalls:
    """Makes short calls where they are worth a try, and the long ones where they were not tried, or in vain."""

    def __init__(
        self, runner: Runner, keys: Keys, durations: Durations, options: StoreOptions
    ) -> None:
        self._runner = runner
        self._keys = keys
        self._durations = durations
        self._now = options.now
        self._common = pack([keys.common(name) for name in COMMON])
        self._of = lru_cache(maxsize=10_000)(self._short_resource)
        self._known = lru_cache(maxsize=16)(_packed_knowledge)

    def acquire(
        self, call: LongCall, holder: str, wait: Wait | None, message_id: MessageId | None
    ) -> list[Any]:
        wanted, _, messages = call
        if not _is_common(wanted, message_id, wait.ticket if wait else None):
            return self._runner.run(scripts.ACQUIRE, *call)
        at, limit = self._of(wanted[0].resource), wanted[0].limit
        words = (holder, "" if limit is None else limit)
        further = 2 + messages[0], at.of_acquires + messages[1]
        short = self._command(scripts.SHORT_ACQUIRE, at, words, further)
        return self._run(at.acquires, short, scripts.ACQUIRE, call)

    def release(
        self, call: LongCall, holder: str | Ticket, message_id: MessageId | None
    ) -> list[Any]:
        wanted = call[0]
        if isinstance(holder, Ticket) or not _is_common(wanted, message_id):
            return self._runner.run(scripts.RELEASE, *call)
        at = self._of(wanted[0].resource)
        short = self._command(scripts.SHORT_RELEASE, at, (holder,))
        return self._run(at.releases, short, scripts.RELEASE, call)

    def _run(
        self, backoff: Backoff, short: ShortCommand, long: Script, call: LongCall
    ) -> list[Any]:
        if not backoff.is_due():
            return self._runner.run(long, *call)
        answer, sufficed = self._runner.run_short(short, long, call)
        backoff.note(sufficed=sufficed)
        return answer

    def _command(
        self,
        script: Script,
        at: ShortResource,
        words: Sequence[Word],
        behind: tuple[int, bytes] = NONE,
    ) -> ShortCommand:
        def command(connection: Any, *, whole: bool) -> bytes:
            own = words if self._now is None else _with_time(words, self._now())
            in_force = self._durations.in_force
            known = self._known(self._runner.epoch, *in_force, run_id_of(connection))
            count = len(COMMON) + len(PARTS) + behind[0]
            start = script.start(count, 1 + len(own), whole=whole)
            return b"".join((start, self._common, at.keys, behind[1], known, pack(own)))

        return command

    def _short_resource(self, resource: str) -> ShortResource:
        keys = [self._keys.part(resource, part) for part in PARTS]
        of_acquires = self._keys.common("limits"), self._keys.part(resource, "weights")
        return ShortResource(pack(keys), pack(of_acquires))


def _is_common(
    wanted: list[ResourceClaim], message_id: MessageId | None, ticket: Ticket | None = None
) -> bool:
    """Return whether a call may be of the common case."""
    is_one = len(wanted) == 1 and wanted[0].weight == 1
    return is_one and ticket is None and (message_id is None or message_id.is_first)


def _with_time(words: Sequence[Word], now: float) -> Sequence[Word]:
    """Add the time of a test, which is the fourth argument: see lua/_short.lua."""
    holder, limit = (*words, "")[:2]
    return holder, limit, microseconds(now)


def _packed_knowledge(*words: Any) -> bytes:
    return pack((" ".join(map(str, words)),))
