"""Let sessions ask for the grants of their waits: docs/maintain/architecture.md, chapters 5 and 8."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ...core.session import NAMED, SessionReply, Standing
from ...errors import SemaphoreError
from ..encoding import check_name
from . import answers
from .answers import texts
from .connection import is_one_resources
from .names import stored
from .questions import asked, named
from .runner import BATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.session import HeldWait
    from ...core.ticket import Ticket
    from .runner import Runner


class Sessions:
    """Makes the calls of sessions through a runner."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def ask(
        self,
        session: str,
        begun: Sequence[HeldWait] = (),
        to_forecast: Sequence[HeldWait] = (),
        *,
        room: int | None = None,
    ) -> SessionReply:
        check_name("session", session)
        try:
            return self._asked(session, begun, to_forecast, room, self._runner.lock_timeout // 4)
        except SemaphoreError as error:
            if not (begun and is_one_resources(error)):
                raise
        # A stuck resource must not put the session to sleep.
        return self._asked(session, (), to_forecast, room)

    def _asked(
        self,
        session: str,
        begun: Sequence[HeldWait],
        to_forecast: Sequence[HeldWait],
        room: int | None,
        lock_timeout: int | None = None,
    ) -> SessionReply:
        words = stored(session), room, *asked(begun, to_forecast)
        (answer,) = self._runner.run("ask", *words, lock_timeout=lock_timeout)
        reply = answers.session_reply(answer)
        self._runner.epoch = reply.epoch
        return reply

    def sleep(self, session: str) -> None:
        ((epoch,),) = self._runner.run("sleep", stored(session))
        self._runner.epoch = int(epoch)

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
        check_name("session", session)
        standings: dict[Ticket, Standing] = {}
        # In one order for all: two calls with different claims lock nothing in common but the rows of these waits.
        waits = sorted(waits[:NAMED], key=lambda wait: wait.ticket.nonce)
        for start in range(0, len(waits), BATCH):
            some = waits[start : start + BATCH]
            told = json.dumps([named(wait) for wait in some])
            ((epoch, found),) = self._runner.run("name", stored(session), told)
            self._runner.epoch = int(epoch)
            words = zip(some, texts(found), strict=True)
            standings |= {wait.ticket: Standing(word) for wait, word in words}
        return standings
