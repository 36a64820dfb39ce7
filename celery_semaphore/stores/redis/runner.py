"""Scripts sent to a server: one round trip, with the keys and the times that each of them gets."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoScriptError

from ..asking import Ask, microseconds
from .answers import figures
from .connection import Link, Word, exchanged, pack, run_id_of
from .keys import Keys
from .scripts import PARTS, Script

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMON = ("epoch", "limits", "index", "names")
FIXED = 6  # arguments that each script gets, see _memory.lua
NOTHING = pack(("",))
BATCH = 500  # calls sent together; more of them would keep others waiting
Call = tuple["list[Ask]", "Sequence[Word]"] | tuple["list[Ask]", "Sequence[Word]", bytes]


class Runner:
    """Runs scripts over a link; knows the store's epoch from their answers."""

    def __init__(
        self,
        link: Link,
        keys: Keys,
        durations: tuple[float, float],
        epoch: int | None,
        now: Callable[[], float] | None,
    ) -> None:
        self.epoch = epoch
        self._link = link
        self._keys = keys
        self._durations = pack([microseconds(each) for each in durations])
        self._now = now
        self._common = pack([keys.common(name) for name in COMMON])
        # What most calls have in common with the one before is packed once.
        self._of = lru_cache(maxsize=10_000)(self._packed_resource)
        self._known = lru_cache(maxsize=16)(_packed_words)

    def run(
        self, script: Script, wanted: list[Ask], words: Sequence[Word] = (), key: bytes = b""
    ) -> list[Any]:
        return self.run_all(script, [(wanted, words, key)])[0]

    def run_all(self, script: Script, calls: Sequence[Call]) -> list[list[Any]]:
        """One round trip for many calls; another for all of them where the server has to learn the script."""
        said: list[list[Any]] = []
        for start in range(0, len(calls), BATCH):
            said += self._run_batch(script, calls[start : start + BATCH])
        return said

    def _run_batch(self, script: Script, calls: Sequence[Call]) -> list[list[Any]]:
        def exchange(connection: Any) -> list[Any]:
            commands = [self._command(script, connection, *call) for call in calls]
            said = exchanged(connection, commands)
            while unknown := [
                n for n, answer in enumerate(said) if isinstance(answer, NoScriptError)
            ]:
                commands[unknown[0]] = self._command(
                    script, connection, *calls[unknown[0]], whole=True
                )
                again = exchanged(connection, [commands[n] for n in unknown])
                for n, answer in zip(unknown, again, strict=True):
                    said[n] = answer
            for answer in said:
                if isinstance(answer, Exception):
                    raise answer
            return [answer if isinstance(answer, list) else figures(answer) for answer in said]

        said = self._link.ask(exchange)
        self.epoch = said[-1][0]
        return said

    def _command(
        self,
        script: Script,
        connection: Any,
        wanted: list[Ask],
        words: Sequence[Word],
        key: bytes = b"",
        *,
        whole: bool = False,
    ) -> bytes:
        keys, names = self._common, b""
        for ask in wanted:
            of_resource, name = self._of(ask.resource)
            keys, names = keys + of_resource, names + name
        count, epoch = len(wanted), "" if self.epoch is None else self.epoch
        known = self._known(run_id_of(connection), epoch, count)
        now = NOTHING if self._now is None else pack((microseconds(self._now()),))
        start = script.start(
            len(COMMON) + count * len(PARTS) + bool(key), FIXED + count + len(words), whole=whole
        )
        return b"".join((start, keys, key, self._durations, now, known, names, pack(words)))

    def _packed_resource(self, resource: str) -> tuple[bytes, bytes]:
        """Its keys, and its name."""
        return pack([self._keys.part(resource, part) for part in PARTS]), pack((resource,))


def _packed_words(*words: Word) -> bytes:
    return pack(words)
