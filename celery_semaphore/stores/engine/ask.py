"""Let sessions ask for the grants of their waits: docs/maintain/architecture.md, chapters 5 and 8."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.session import EXPECTED, SessionReply
from ..encoding import DEFAULT_MEAN, resource_claims, seconds
from .state import GRANT

if TYPE_CHECKING:
    from collections.abc import Sequence, Set as AbstractSet

    from ...core.session import HeldWait
    from .resource import Resource
    from .state import StoreState


def ask(
    state: StoreState,
    session: str,
    begun: Sequence[HeldWait],
    to_forecast: Sequence[HeldWait],
    room: int | None,
) -> SessionReply:
    slept = not state.is_awake(session)  # Q2, after Q1 in Engine.ask
    state.wake(session)
    state.rooms[session] = room
    granted = _granted(state, session)  # Q3
    taken_up = {wait.ticket.nonce for wait in begun} & granted
    for name in {each.resource for wait in begun for each in resource_claims(wait.claims)}:
        _prolong(state.at(name), taken_up, state.now + GRANT)  # Q4
    expected = {
        wait.ticket.nonce: turn
        for wait in to_forecast[:EXPECTED]
        if (turn := _turn_of(state, wait)) is not None  # Q5
    }
    return SessionReply(state.epoch.id, slept, len(state.sessions), granted, expected)


def _granted(state: StoreState, session: str) -> frozenset[str]:
    granted = state.catalogue.granted_to(session)
    return frozenset(nonce for nonce, entry in granted if entry.ends > state.now)


def _prolong(at: Resource, taken_up: AbstractSet[str], ends: int) -> None:
    for nonce in at.grants.keys() & taken_up:
        at.grants[nonce] = replace(at.grants[nonce], ends=ends)


def _turn_of(state: StoreState, wait: HeldWait) -> float | None:
    nonce = wait.ticket.nonce
    if at := state.standing(resource_claims(wait.claims), nonce):
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
