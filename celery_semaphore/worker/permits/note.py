"""NotePipe: carry notes from pool processes to the worker's main process, which renews their permits.

A delivery writes three notes: *asked* before it asks the store, *held* once it has a permit, and *released* once its
process has released that (*unreleased* if it could not). With late acks it writes *over* before the last one, when the
body has ended. If the process dies after the first note, the main process knows what to release. Each note is one write
of at most PIPE_BUF bytes, which POSIX keeps whole even if several processes write.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from ...core.claim import Claim
from ...core.events import PermitAcquiredEvent
from ...core.permit import Permit
from ...core.store import HandedOn
from ...errors import ConfigurationError
from ...stores.encoding import brief
from .permit_observer import PermitObserver

CHUNK = 1 << 16  # bytes of one read: all that a pipe can hold, so it ends with a whole note
STUCK = 1.0  # seconds after which a thread reads notes although another one does

# Each task pays for three notes, so they skip the overhead of json.dumps and json.loads.
_quoted = json.encoder.encode_basestring_ascii
_decode = json.JSONDecoder().raw_decode

logger = logging.getLogger(__name__)


class NotePipe:
    """A pipe that pool processes inherit; the main process drains it."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        # Notes that were read and not entered yet; the first one may be entered in part.
        self._unread: deque[bytes] = deque()
        self._lock = threading.RLock()  # for readers; a child process never takes it

    def asked(self, holder: str, claims: Sequence[Claim]) -> None:
        """Write the note of ``PermitObserver.asked``."""
        self._note(f'["asked",{_quoted(holder)},{_packed(brief(claims))}]')

    def held(self, acquired: PermitAcquiredEvent, since: float, pid: int | None = None) -> None:
        """Write the note of ``PermitObserver.held``."""
        permit = acquired.permit
        times = f"{permit.acquired_at!r},{permit.expires_at!r},{since!r}"
        grant = f"{permit.token},{permit.epoch},{times},{pid or os.getpid()}"
        start, end = (
            f'["held",{_quoted(permit.holder)},{grant},',
            f",{acquired.waited:.3f},{acquired.took:.6f}]",
        )
        note = f"{start}{_quoted(acquired.task)}{end}"
        if len(note) >= select.PIPE_BUF:  # the permit matters more than the name that metrics show
            note = f'{start}""{end}'
        self._note(note)

    def over(self, holder: str) -> None:
        """Write the note of ``PermitObserver.over``."""
        self._note(f'["over",{_quoted(holder)}]')

    def released(self, holder: str, handed: HandedOn) -> None:
        """Write the note of ``PermitObserver.released``."""
        # Leave out what makes a note too long: a question finds the grants; and a sweep, which is later, the messages.
        start = f'["released",{_quoted(holder)}'
        outgoing, granted = _listed(handed.outgoing), _listed(handed.granted)
        note = f"{start},{outgoing},{granted}]"
        if len(note) >= select.PIPE_BUF:
            note = f"{start},{outgoing},[]]"
        if len(note) >= select.PIPE_BUF:
            note = f"{start},[],[]]"
        self._note(note)

    def unreleased(self, holder: str) -> None:
        """Write the note of ``PermitObserver.unreleased``."""
        self._note(f'["unreleased",{_quoted(holder)}]')

    def drain(self, observer: PermitObserver) -> bool:
        """Enter every note written so far, in order, and return whether there was one.

        Any thread may call it, and also a signal handler that interrupted this very call. It begins with the note that
        was being entered, which may be entered twice. A handler that sleeps there (a soft shutdown) delays other
        threads only for a moment.
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
        # One call without Python code inside, so that a signal handler cannot interrupt it between read and append.
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
            # The other notes are read already, and would be lost if this one raised.
            logger.exception("a note about a permit could not be entered")
        with contextlib.suppress(ValueError):  # a signal handler that interrupted this removed it
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


def _listed(names: frozenset[str]) -> str:
    return json.dumps(sorted(names)) if names else "[]"


def _fields(claim: Claim) -> list[Any]:
    # The beginning of a long key is enough: stores use the resource's name.
    key = claim.key if claim.key is None else claim.key[:64].encode("utf-8", "replace").decode()
    return [claim.semaphore, key, claim.limit, claim.weight, claim.resource]


def _enter(note: list[Any], observer: PermitObserver) -> None:
    what, *rest = note
    ENTER[what](observer, *rest)


def _asked(observer: PermitObserver, holder: str, claims: list[Any]) -> None:
    observer.asked(holder, [Claim(*claim) for claim in claims])


def _held(observer: PermitObserver, holder: str, token: int, epoch: int, *rest: Any) -> None:
    acquired, expires, since, pid, *event = rest
    # The ledger knows the claims from the note before.
    permit = Permit(holder, token, (), acquired, expires, epoch)
    observer.held(PermitAcquiredEvent(permit, *event), since, pid)


def _over(observer: PermitObserver, holder: str) -> None:
    observer.over(holder)


def _released(observer: PermitObserver, holder: str, *handed: list[str]) -> None:
    observer.released(holder, HandedOn(*map(frozenset, handed)) if any(handed) else NOTHING)


def _unreleased(observer: PermitObserver, holder: str) -> None:
    observer.unreleased(holder)


NOTHING = HandedOn()
ENTER: dict[str, Callable[..., None]] = {
    "asked": _asked,
    "held": _held,
    "over": _over,
    "released": _released,
    "unreleased": _unreleased,
}
