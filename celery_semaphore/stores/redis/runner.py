"""Send scripts to a server in one round trip, with the keys and arguments that all of them have."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import NoScriptError

from ..durations import REPEATS
from ..encoding import ResourceClaim, microseconds
from .answers import figures
from .connection import Word, exchanged, pack, run_id_of
from .errors import durations_in, is_final, is_transient, said
from .keys import Keys
from .link import Link
from .scripts import PARTS, Script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from ..durations import Durations
    from ..options import StoreOptions

    class ShortCommand(Protocol):
        def __call__(self, connection: Any, *, whole: bool) -> bytes: ...


COMMON = ("epoch", "limits", "index", "names", "sessions", "grants", "ends", "rooms", "claims")
FIXED = 6  # arguments that each script gets, see _call.lua
NOTHING = pack(("",))
BATCH = 500  # calls sent together; more would delay others
# The declared resources of a call, its own arguments, and its further keys: their number, and the packed keys.
Call = (
    tuple["list[ResourceClaim]", "Sequence[Word]"]
    | tuple["list[ResourceClaim]", "Sequence[Word]", "tuple[int, bytes]"]
)
NONE = (0, b"")
NO_SCRIPTS: frozenset[Script] = frozenset()

logger = logging.getLogger(__name__)


class Runner:
    """Runs scripts over a link, and notes the store's epoch from their answers."""

    def __init__(self, link: Link, keys: Keys, options: StoreOptions, durations: Durations) -> None:
        self.epoch: int | None = None
        self._link = link
        self._keys = keys
        self._durations = durations
        self._now = options.now
        self._common = pack([keys.common(name) for name in COMMON])
        # Cache the packed words that most calls share with earlier ones.
        self._of = lru_cache(maxsize=10_000)(self._packed_resource)
        self.keys_of = lru_cache(maxsize=10_000)(self._packed_keys)
        self._known = lru_cache(maxsize=16)(_packed_words)

    def run(
        self,
        script: Script,
        wanted: list[ResourceClaim],
        words: Sequence[Word] = (),
        keys: tuple[int, bytes] = NONE,
    ) -> list[Any]:
        answer: list[Any] = self._run_batch(script, [(wanted, words, keys)], lenient=False)[0]
        return answer

    def run_short(self, short: ShortCommand, long: Script, call: Call) -> tuple[list[Any], bool]:
        """Make a short call; if it answers 0, so that nothing has changed, make the long one over its connection.

        Return the answer, and whether the short call sufficed.
        """

        def exchange(connection: Any) -> Any:
            (answer,) = exchanged(connection, [short(connection, whole=False)])
            if isinstance(answer, NoScriptError):
                (answer,) = exchanged(connection, [short(connection, whole=True)])
            sufficed = answer != 0
            if not sufficed:
                (answer,) = self._exchanged(connection, [(long, call)])
            return _read(answer, lenient=False), sufficed

        answer, sufficed = self._link.ask(exchange)
        self.epoch = answer[0]
        return answer, sufficed

    def run_all(self, script: Script, calls: Sequence[Call]) -> list[list[Any]]:
        """Run many calls in one round trip, or two if the server does not know the script yet."""
        return [answer for answer in self._run(script, calls, lenient=False) if answer is not None]

    def run_each(self, script: Script, calls: Sequence[Call]) -> list[list[Any] | None]:
        """Run many calls; log those that the server would always refuse, and return None for them."""
        return self._run(script, calls, lenient=True)

    def run_mixed(self, calls: Sequence[tuple[Script, Call]]) -> list[list[Any] | redis.RedisError]:
        """Run calls of several scripts in one round trip; return the error of each that the server refused.

        After a fault only those are repeated that had no answer.
        """
        found: dict[int, Any] = {}
        if not calls:
            return []

        def exchange(connection: Any) -> None:
            left = [n for n in range(len(calls)) if n not in found]
            said = self._exchanged(connection, [calls[n] for n in left])
            found.update((n, each) for n, each in zip(left, said, strict=True) if not _passes(each))
            for each in said:
                if _passes(each):
                    raise each

        self._link.ask(exchange)
        return [self._noted(found[n]) for n in range(len(calls))]

    def _noted(self, answer: Any) -> list[Any] | redis.RedisError:
        if isinstance(answer, redis.RedisError):
            return answer
        read = answer if isinstance(answer, list) else figures(answer)
        self.epoch = read[0]
        return read

    def _run(
        self, script: Script, calls: Sequence[Call], *, lenient: bool
    ) -> list[list[Any] | None]:
        answers: list[list[Any] | None] = []
        for start in range(0, len(calls), BATCH):
            answers += self._run_batch(script, calls[start : start + BATCH], lenient=lenient)
        return answers

    def _run_batch(self, script: Script, calls: Sequence[Call], *, lenient: bool) -> list[Any]:
        mixed = [(script, call) for call in calls]

        def exchange(connection: Any) -> list[Any]:
            found = self._exchanged(connection, mixed)
            return [_read(answer, lenient=lenient) for answer in found]

        answers = self._link.ask(exchange)
        for answer in answers:
            if answer is not None:
                self.epoch = answer[0]
        return answers

    def _exchanged(self, connection: Any, calls: Sequence[tuple[Script, Call]]) -> list[Any]:
        """Return the answers; repeat the calls that changed nothing, as the server lacked the script or for A16."""
        found = dict.fromkeys(range(len(calls)))
        left, unknown = list(found), NO_SCRIPTS
        for _ in range(1 + REPEATS):
            commands = self._commands(connection, [calls[n] for n in left], unknown)
            found.update(zip(left, exchanged(connection, commands), strict=True))
            left = [n for n in left if self._must_be_repeated(found[n])]
            if not left:
                break
            unknown = frozenset(calls[n][0] for n in left if isinstance(found[n], NoScriptError))
        return list(found.values())

    def _commands(
        self, connection: Any, calls: Sequence[tuple[Script, Call]], unknown: frozenset[Script]
    ) -> list[bytes]:
        """Return the commands of these calls; the first one with an unknown script brings its source."""
        commands = []
        for script, call in calls:
            commands.append(self._command(script, connection, *call, whole=script in unknown))
            if unknown:
                unknown -= {script}
        return commands

    def _must_be_repeated(self, answer: Any) -> bool:
        in_force = durations_in(answer)
        if in_force is not None:
            self._durations.adopt(in_force)
        return in_force is not None or isinstance(answer, NoScriptError)

    def _command(
        self,
        script: Script,
        connection: Any,
        wanted: list[ResourceClaim],
        words: Sequence[Word],
        behind: tuple[int, bytes] = NONE,
        *,
        whole: bool = False,
    ) -> bytes:
        keys, names = self._common, b""
        for claim in wanted:
            of_resource, name = self._of(claim.resource)
            keys, names = keys + of_resource, names + name
        count, epoch = len(wanted), "" if self.epoch is None else self.epoch
        known = self._known(run_id_of(connection), epoch, count)
        now = NOTHING if self._now is None else pack((microseconds(self._now()),))
        start = script.start(
            len(COMMON) + count * len(PARTS) + behind[0], FIXED + count + len(words), whole=whole
        )
        durations = self._known(*self._durations.in_force)
        return b"".join((start, keys, behind[1], durations, now, known, names, pack(words)))

    def _packed_resource(self, resource: str) -> tuple[bytes, bytes]:
        """Return the keys of a resource, and its name."""
        return pack([self._keys.part(resource, part) for part in PARTS]), pack((resource,))

    def _packed_keys(self, resource: str) -> bytes:
        """Return the keys of a resource's holders and its ledger, for scripts that need no others."""
        return pack([self._keys.part(resource, part) for part in PARTS[:2]])


def _passes(answer: object) -> bool:
    """Return whether this is an error that a repetition over a new connection may mend."""
    return isinstance(answer, redis.RedisError) and is_transient(answer)


def _read(answer: Any, *, lenient: bool) -> list[Any] | None:
    if isinstance(answer, list):
        return answer
    if not isinstance(answer, Exception):
        return figures(answer)
    if not lenient or not is_final(said(answer)):
        raise answer
    logger.warning("the store refused one call of a batch: %s", said(answer))
    return None


def _packed_words(*words: Word) -> bytes:
    return pack(words)
