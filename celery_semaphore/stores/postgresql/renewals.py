"""Renew many permits in one call; those that another call has locked get no answer, or are tried in turn."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING

from ...core.permit import Renewal, Renewals
from .answers import texts
from .connection import passed_over_if_busy
from .questions import renewed
from .runner import BATCH, SHORTEST_MS

if TYPE_CHECKING:
    from ...core.permit import Permit
    from .runner import Runner

BUSY = "busy"  # answer instead of a renewal: another call has locked the resource


class Renewer:
    """Renews permits through a runner."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def renew(self, permits: list[Permit]) -> Renewals:
        renewals = Renewals()
        for start in range(0, len(permits), BATCH):
            renewals |= self._renew_batch(permits[start : start + BATCH])
        busy = [permit for permit in permits if permit.holder not in renewals]
        return renewals | self._renew_in_turn(busy)

    def _renew_batch(self, permits: list[Permit], lock_timeout: int | None = None) -> Renewals:
        """Renew them in one call; without ``lock_timeout`` those that another call has locked get no answer."""
        asked = json.dumps([renewed(each) for each in permits]), lock_timeout is not None
        ((epoch, became),) = self._runner.run("renew", *asked, lock_timeout=lock_timeout)
        self._runner.epoch = int(epoch)
        answered = zip(permits, texts(became), strict=True)
        return {each.holder: Renewal(word) for each, word in answered if word != BUSY}

    def _renew_in_turn(self, busy: list[Permit]) -> Renewals:
        """Renew permits on locked resources one by one, all together within the time of one answer.

        A busy resource is free again in a moment; a stuck one must cost no other permit its lease.
        """
        renewals = Renewals()
        until = time.monotonic() + self._runner.lock_timeout / 1000
        lock_timeout = max(SHORTEST_MS, self._runner.lock_timeout // (len(busy) + 1))
        for permit in random.sample(busy, len(busy)):  # else the same ones would always be too late
            if time.monotonic() > until:
                break
            with passed_over_if_busy():
                renewals |= self._renew_batch([permit], lock_timeout)
        return renewals
