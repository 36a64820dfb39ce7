"""Let a session name the waits that it owns: docs/maintain/architecture.md, chapter 8."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.session import NAMED, Standing
from ..encoding import brief, microseconds, resource_claims
from .stored_wait import StoredWait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.session import HeldWait
    from ...core.ticket import Ticket
    from .resource import Entry, Resource
    from .state import StoreState


def name(state: StoreState, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
    return {wait.ticket: _named(state, session, wait) for wait in waits[:NAMED]}


def _named(state: StoreState, session: str, wait: HeldWait) -> Standing:
    """E6: put the wait back into line, unless another message of it was refused since."""
    ticket, wanted = wait.ticket, resource_claims(wait.claims)
    at = state.catalogue.with_wait(ticket.nonce)
    if at and not at.tickets[ticket.nonce].claims_the_same(wanted):
        return Standing.ELSEWHERE  # N4, A19
    if at and at.was_sent(ticket.nonce) and state.is_over(at.grants[ticket.nonce]):
        at = None
    if at is None:  # N1
        # End an overdue grant now: its end would put this wait in transit (E7).
        state.taken_up(wanted, ticket.nonce)
        waiter = StoredWait(ticket, wait.kind, brief(wait.claims), tuple(wanted), state.now)
        waiter = replace(waiter, session=session, keeps=microseconds(wait.keeps))
        _stand(state, state.at(wanted[0].resource), waiter)
        return Standing.WAITS
    waiter = at.tickets[ticket.nonce]
    if waiter.session != session:  # N4
        return Standing.ELSEWHERE
    if not _may_stay(state, waiter, at.grants.get(ticket.nonce)):  # N2, else N3
        at.grants.pop(ticket.nonce, None)  # as E7, which ends those of the other claims
        _stand(state, at, waiter)
    return Standing.WAITS


def _may_stay(state: StoreState, waiter: StoredWait, grant: Entry | None) -> bool:
    if grant:
        return grant.ends > state.now
    return not waiter.away and waiter.epoch == state.epoch.id


def _stand(state: StoreState, at: Resource, waiter: StoredWait) -> None:
    away = not state.is_awake(waiter.session)
    due, epoch = state.now if away else waiter.due, state.epoch.id
    at.tickets[waiter.nonce] = replace(waiter, epoch=epoch, away=away, aside=False, due=due)
    at.reaped_at = 0  # the next reaper hands on
