"""Surplus: the waits that a worker without a free process leaves to others.

They lie where their permits cannot be used, if a granted task waits here for a process while other workers may have a
free one: M6. How it fails:

* No other worker takes them: they come back to this one, as far as its prefetch without raises has room. They keep
  their places, and are given back at most once a second.
* A shutdown or a lost connection between two turns of the loop: what is left is still kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from math import inf

from ...task.celery_types import Consumer
from ..celery_internals import pool_size
from .kept_message import KeptMessage
from .prefetch import Prefetch
from .session import Session

logger = logging.getLogger(__name__)

CROWDED_S = 0.25  # how long granted tasks have waited for processes of a crowded worker
BEGINS_S = 0.02  # a granted task that waits for less is about to begin
PAUSE_S = 1.0  # between two returns: other workers need a moment to take them
LEAST_WAITS = (
    4  # the waits that any worker keeps: its next tasks, while others take what it gives back
)
RETURNED_AT_ONCE = 200  # messages that go back in one turn of the loop


class Surplus:
    """Gives back to the broker what the worker does not keep."""

    def __init__(
        self,
        c: Consumer,
        session: Session,
        prefetch: Prefetch,
        in_loop: Callable[[Callable[[], object]], object],
        give_back: Callable[[list[KeptMessage]], object],
    ) -> None:
        self._c = c
        self._session = session
        self._prefetch = prefetch
        self._in_loop = in_loop
        self._give_back = give_back
        self._returned_at = 0.0
        self._waits_since = inf  # since when granted tasks wait, as far as was seen

    def leave_to_others(self, messages: set[KeptMessage]) -> None:
        """Give back all waits but the first in line, if others may run them sooner, and receive no more for a while."""
        now = time.monotonic()
        if (
            self._prefetch.is_bounded
            or not self._is_crowded(now)
            or now - self._returned_at < PAUSE_S
        ):
            return
        self._returned_at = now
        most = max(2 * pool_size(self._c.pool), LEAST_WAITS)
        self._prefetch.restrain(most, self._session.lease)
        waits = [kept for kept in messages if kept.wait is not None]
        if len(waits) <= most:
            return
        surplus = sorted(waits, key=lambda kept: kept.rank)[most:]
        logger.info("%d waiting tasks go back: no process is free here", len(surplus))
        for kept in surplus:
            self._prefetch.lower_for(kept)
        self._prefetch.tell()
        self._give_back_last(surplus, messages)

    def _is_crowded(self, now: float) -> bool:
        """Return whether permits idle here that another worker may use."""
        if not self._session.unstarted.have_waited(BEGINS_S):
            self._waits_since = inf
            return False
        self._waits_since = min(self._waits_since, now)
        return self._session.sessions > 1 and now - self._waits_since >= CROWDED_S

    def _give_back_last(self, surplus: list[KeptMessage], messages: set[KeptMessage]) -> None:
        """Give back the last ones in this turn of the loop, and those before them in the next turns."""
        self._give_back([kept for kept in surplus[-RETURNED_AT_ONCE:] if kept in messages])
        if before := surplus[:-RETURNED_AT_ONCE]:
            self._in_loop(partial(self._give_back_last, before, messages))
