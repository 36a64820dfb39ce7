"""Let sessions ask for the grants of their waits: docs/maintain/architecture.md, chapters 5 and 8."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.session import EXPECTED, NAMED, SessionReply, Standing
from ..encoding import DEFAULT_MEAN, brief, microseconds, resource_claims, seconds
from .state import GRANT
from .stored_wait import StoredWait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.session import HeldWait
    from ...core.ticket import Ticket
    from ..encoding import ResourceClaim
    from .resource import Resource
    from .state import MemoryState


def ask(
    state: MemoryState, session: str, begun: Sequence[HeldWait], to_forecast: Sequence[HeldWait]
) -> SessionReply:
    slept = not state.is_awake(session)  # Q2, after Q1 in MemoryStore.ask
    state.wake(session)
    granted = _granted(state, session)  # Q3
    for wait in begun:
        if wait.ticket.nonce in granted:
            _prolong(state, wait)  # Q4
    expected = {
        wait.ticket.nonce: turn
        for wait in to_forecast[:EXPECTED]
        if (turn := _turn_of(state, wait)) is not None  # Q5
    }
    return SessionReply(state.epoch.id, slept, len(state.sessions), granted, expected)


def name(state: MemoryState, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
    return {wait.ticket: _named(state, session, wait) for wait in waits[:NAMED]}


def _granted(state: MemoryState, session: str) -> frozenset[str]:
    return frozenset(
        nonce
        for at in state.resources.values()
        for nonce, waiter in at.tickets.items()
        if waiter.session == session
        if (entry := at.grants.get(nonce)) and entry.ends > state.now
    )


def _prolong(state: MemoryState, wait: HeldWait) -> None:
    nonce = wait.ticket.nonce
    for each in resource_claims(wait.claims):
        grants = state.at(each.resource).grants
        if nonce in grants:
            grants[nonce] = replace(grants[nonce], ends=state.now + GRANT)


def _turn_of(state: MemoryState, wait: HeldWait) -> float | None:
    nonce = wait.ticket.nonce
    for at in state.standing(resource_claims(wait.claims), nonce):
        waiter, limit = at.tickets[nonce], state.limit(at.name)
        if limit and waiter in (line := at.line()):
            return seconds((line.index(waiter) + 1) * _hold(at) // limit)
    return None


def _hold(at: Resource) -> int:
    """Return how long a permit is held, for forecasts: the newest hold counts if it is shorter than the mean.

    A session that expects too long a wait lets permits idle; one that expects too short a wait only asks more often.
    """
    if at.mean is None:
        return DEFAULT_MEAN
    return round(at.mean if at.latest is None else min(at.mean, at.latest))


def _named(state: MemoryState, session: str, wait: HeldWait) -> Standing:
    """E6: put the wait back into line, unless another message of it was refused since."""
    ticket, wanted = wait.ticket, resource_claims(wait.claims)
    found = state.standing(wanted, ticket.nonce)
    if not found and _was_sent(state, wanted, ticket.nonce):
        return Standing.ELSEWHERE  # N4
    if not found:  # N1
        # End an overdue grant now: its end would put this wait in transit (E7).
        state.end_grant(wanted, ticket.nonce)
        waiter = StoredWait(ticket, wait.kind, brief(wait.claims), tuple(wanted), state.now)
        waiter = replace(waiter, session=session, keeps=microseconds(wait.keeps))
        _stand(state, state.at(wanted[0].resource), waiter)
        return Standing.WAITS
    at = found[-1]
    waiter = at.tickets[ticket.nonce]
    if waiter.session != session:  # N4
        return Standing.ELSEWHERE
    if waiter.away:  # N2, else N3
        _stand(state, at, waiter)
    return Standing.WAITS


def _was_sent(state: MemoryState, wanted: Sequence[ResourceClaim], nonce: str) -> bool:
    """Return whether its message was sent, with a grant that has not ended."""
    grants = (state.at(each.resource).grants.get(nonce) for each in wanted)
    return any(each and (each.ends > state.now or state.in_grace) for each in grants)


def _stand(state: MemoryState, at: Resource, waiter: StoredWait) -> None:
    away = not state.is_awake(waiter.session)
    at.tickets[waiter.nonce] = replace(waiter, away=away, due=state.now if away else waiter.due)
    at.reaped_at = 0  # the next reaper hands on
