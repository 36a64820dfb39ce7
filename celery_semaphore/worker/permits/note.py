"""NotePipe: what a pool process tells the worker's main process, which alone renews and releases.

Three notes for each delivery: *asked*, before the store is asked, *held*, once it said yes, and
*released*, once the process gave the permit back itself (*unreleased* if it could not). With late acks a fourth one
before the last: *over*, when the body is. A process that dies at any moment between the first and the last has told what must be released. Each note is one write of at most PIPE_BUF
bytes, which POSIX keeps whole however many processes write.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol

from ...core.permit import Claim, Permit
from ...core.store import Outgoing
from ...errors import ConfigurationError
from ...stores.encoding import brief

CHUNK = 1 << 16  # bytes that are read at once: what a pipe can hold, so whole notes only
STUCK = 1.0  # seconds after which a thread reads notes although another one does

# Each task pays for three notes, so what json.dumps and json.loads do beside their work is left out.
_quoted = json.encoder.encode_basestring_ascii
_decode = json.JSONDecoder().raw_decode

logger = logging.getLogger(__name__)


class PermitObserver(Protocol):
    """Who must know of a delivery's permit: the ledger, or a pipe that leads to it."""

    def asked(self, holder: str, claims: Sequence[Claim]) -> None:
        """The store will be asked for this; from now on it must be released."""

    def held(self, permit: Permit, since: float, pid: int | None = None) -> None:
        """The store said yes; ``since`` is the monotonic time before it was asked.

        The permit is of no use once the process ``pid`` is gone: None stands for the caller's own.
        """

    def over(self, holder: str) -> None:
        """The body is over; its process gives the permit back, and then reports its end."""

    def released(self, holder: str, outgoing: Outgoing) -> None:
        """The store confirmed the release: nobody else needs to; what it handed on must be sent."""

    def unreleased(self, holder: str) -> None:
        """The task is over, but the store did not confirm: the permit shall not outlive its lease."""


class NotePipe:
    """A pipe that pool processes inherit; the main process drains it."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        # Read and not entered yet; the first one may be, in part.
        self._unread: deque[bytes] = deque()
        self._lock = threading.RLock()  # of the reader, never taken by a child

    def asked(self, holder: str, claims: Sequence[Claim]) -> None:
        """See ``Books``."""
        self._note(f'["asked",{_quoted(holder)},{_packed(brief(claims))}]')

    def held(self, permit: Permit, since: float, pid: int | None = None) -> None:
        """See ``Books``."""
        times = f"{permit.acquired_at!r},{permit.expires_at!r},{since!r}"
        grant = f"{permit.token},{permit.epoch},{times},{pid or os.getpid()}"
        self._note(f'["held",{_quoted(permit.holder)},{grant}]')

    def over(self, holder: str) -> None:
        """See ``Books``."""
        self._note(f'["over",{_quoted(holder)}]')

    def released(self, holder: str, outgoing: Outgoing) -> None:
        """See ``Books``."""
        start = f'["released",{_quoted(holder)},'
        note = f"{start}{json.dumps(sorted(outgoing)) if outgoing else '[]'}]"
        # What does not fit is found by the next sweep.
        self._note(note if len(note) < select.PIPE_BUF else f"{start}[]]")

    def unreleased(self, holder: str) -> None:
        """See ``Books``."""
        self._note(f'["unreleased",{_quoted(holder)}]')

    def drain(self, observer: PermitObserver) -> bool:
        """Enter every note written so far, in order; whether there was one. From any thread.

        Also from a signal handler that interrupted this very call, at any step: it begins with the note that was
        being entered, which may be entered twice. A handler that sleeps there (a soft shutdown) holds up others
        only for a moment.
        """
        locked = self._lock.acquire(timeout=STUCK)
        try:
            self._take_in()
            found = bool(self._unread)
            while self._enter_first(observer):
                pass
            return found
        finally:
            if locked:
                self._lock.release()

    def close(self) -> None:
        """Close both ends."""
        os.close(self._read)
        os.close(self._write)

    def _take_in(self) -> None:
        # One call without a step of Python inside: no note is ever in the hands of a thread that was interrupted.
        reads = map(os.read, (self._read,), (CHUNK,))
        with contextlib.suppress(BlockingIOError):
            self._unread.extend(chain.from_iterable(map(bytes.splitlines, reads)))

    def _enter_first(self, observer: PermitObserver) -> bool:
        try:
            note = self._unread[0]
        except IndexError:
            return False
        try:
            _enter(_decode(note.decode())[0], observer)
        except Exception:
            # One that fails must not take the others along, which are read and gone.
            logger.exception("a note about a permit could not be entered")
        with contextlib.suppress(ValueError):  # whoever interrupted this went on from here
            self._unread.remove(note)
        return True

    def _note(self, note: str) -> None:
        line = note.encode() + b"\n"
        if len(line) > select.PIPE_BUF:
            msg = (
                f"the note about a permit takes {len(line)} bytes of {select.PIPE_BUF}: use a shorter"
                " task id, shorter semaphore names, or fewer limits."
            )
            raise ConfigurationError(msg)
        os.write(self._write, line)


@lru_cache(maxsize=256)
def _packed(claims: tuple[Claim, ...]) -> str:
    return json.dumps([_fields(claim) for claim in claims], separators=(",", ":"))


def _fields(claim: Claim) -> list[Any]:
    # A long key is shown by its beginning only: the resource's name is what counts.
    key = claim.key if claim.key is None else claim.key[:64].encode("utf-8", "replace").decode()
    return [claim.semaphore, key, claim.limit, claim.weight, claim.resource]


def _enter(note: list[Any], observer: PermitObserver) -> None:
    match note:
        case ["asked", holder, claims]:
            observer.asked(holder, [Claim(*claim) for claim in claims])
        case ["held", holder, token, epoch, acquired, expires, since, pid]:
            # The claims are known from the note before; the ledger puts them back.
            observer.held(Permit(holder, token, (), acquired, expires, epoch), since, pid)
        case ["over", holder]:
            observer.over(holder)
        case ["released", holder, outgoing]:
            observer.released(holder, frozenset(outgoing))
        case ["unreleased", holder]:
            observer.unreleased(holder)
