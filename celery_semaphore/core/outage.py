"""Outage: log once that a store does not answer, however many calls of this process notice it."""

from __future__ import annotations

import logging
import os
from time import monotonic

from .store import Store

logger = logging.getLogger(__name__)

QUIET_S = 6.0  # without a failure; an attempt may take 4 s, and the pause after it 1 s
TRYING_AGAIN = "semaphore %r: trying again: %s"
NOT_RELEASED = "%s is not released yet, retrying: %s"
GIVEN_UP = "%d release(s) given up, their leases have ended: %s"


class Outage:
    """An outage of one store, for the calls and releases of one process.

    An answer ends it if no call failed for ``QUIET_S``. So a server that answers some calls only causes two lines, not
    two for each.
    """

    def __init__(self) -> None:
        # Changed by atomic operations, without a lock: a signal handler may acquire.
        self._logged: dict[str, object] = {}  # not empty while an outage lasts that was logged
        self._failed_at = 0.0  # monotonic time of the last failure
        self._is_answered = False  # since then

    def failed(self, text: str, *given: object) -> None:
        """Log that a call had no answer, as a warning if it is the first."""
        self.note()
        mine = object()
        try:
            if self._logged.setdefault("by", mine) is mine:
                logger.warning("%s (others are not logged until the store answers)", text % given)
            else:
                logger.debug(text, *given)
        except BaseException:  # a signal handler raised: perhaps the line is missing
            self._logged.clear()
            raise

    def note(self) -> None:
        """Note a failure, which is not logged."""
        if self._is_answered and monotonic() - self._failed_at >= QUIET_S:
            self._logged.clear()  # it was over, but no call came to say so
        self._failed_at, self._is_answered = monotonic(), False

    def answered(self) -> None:
        """Log an answer that ends an outage."""
        failed_at, self._is_answered = self._failed_at, True
        if self._logged and monotonic() - failed_at >= QUIET_S and self._logged.pop("by", None):
            logger.warning("the store answers again")
            if self._failed_at != failed_at:  # it came before this line: log the next one
                self._logged.clear()


_by_store: dict[Store, Outage] = {}
os.register_at_fork(after_in_child=_by_store.clear)  # a child has none of its parent's calls


def outage_of(store: Store) -> Outage:
    """Return the outage of a store that this process knows of, or may."""
    return _by_store.get(store) or _by_store.setdefault(store, Outage())
