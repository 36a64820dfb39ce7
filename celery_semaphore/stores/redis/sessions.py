"""Let sessions ask for the grants of their waits: docs/maintain/architecture.md, chapters 5 and 8."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.session import EXPECTED, NAMED, HeldWait, SessionReply, Standing
from ..encoding import (
    ResourceClaim,
    check_name,
    microseconds,
    packed,
    resource_claims,
    seconds,
)
from . import scripts
from .answers import text
from .renewals import said

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...core.ticket import Ticket
    from .connection import Word
    from .runner import Runner

MANY = 100  # waits in one call: other calls wait meanwhile
BEGUN = 50  # grants that one call prolongs: each is looked for at the resources of all
STANDINGS = {"w": Standing.WAITS, "e": Standing.ELSEWHERE}


class Sessions:
    """Makes the calls of sessions through a runner."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def ask(
        self,
        session: str,
        begun: Sequence[HeldWait],
        to_forecast: Sequence[HeldWait],
        room: int | None,
    ) -> SessionReply:
        """Ask in one call, or in more of them to prolong many grants; the answers of all are one."""
        check_name("session", session)
        reply = self._asked(session, begun[:BEGUN], to_forecast[:EXPECTED], room)
        for start in range(BEGUN, len(begun), BEGUN):
            last = self._asked(session, begun[start : start + BEGUN], (), room)
            reply = replace(last, slept=reply.slept, expected=reply.expected)
        return reply

    def _asked(
        self,
        session: str,
        begun: Sequence[HeldWait],
        to_forecast: Sequence[HeldWait],
        room: int | None,
    ) -> SessionReply:
        claimed = _resources(begun)
        words: list[Word] = [session, "" if room is None else room, len(begun), len(claimed)]
        words += [wait.ticket.nonce for wait in (*begun, *to_forecast)]
        wanted = claimed | _resources(to_forecast)  # those of `begun` stay the first ones
        epoch, slept, sessions, granted, expected = self._runner.run(
            scripts.ASK, list(wanted.values()), words
        )
        turns = {text(nonce): seconds(turn) for nonce, turn in expected}
        return SessionReply(epoch, bool(slept), sessions, frozenset(map(text, granted)), turns)

    def sleep(self, session: str) -> None:
        self._runner.run(scripts.SLEEP, [], [session])

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
        check_name("session", session)
        standings: dict[Ticket, Standing] = {}
        waits = waits[:NAMED]
        for start in range(0, len(waits), MANY):
            standings |= self._named(session, waits[start : start + MANY])
        return standings

    def _named(self, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
        wanted = _resources(waits)
        places = {name: n for n, name in enumerate(wanted, 1)}
        words: list[Word] = [session]
        for wait in waits:
            words += [wait.ticket.text, wait.kind, microseconds(wait.keeps), packed(wait.claims)]
            words.append(len(own := resource_claims(wait.claims)))
            for claim in own:
                words += [places[claim.resource], said(claim.limit), claim.weight]
        _, answer = self._runner.run(scripts.NAME, list(wanted.values()), words)
        answered = zip(waits, answer.decode(), strict=True)
        return {wait.ticket: STANDINGS[letter] for wait, letter in answered}


def _resources(waits: Iterable[HeldWait]) -> dict[str, ResourceClaim]:
    return {claim.resource: claim for wait in waits for claim in resource_claims(wait.claims)}
