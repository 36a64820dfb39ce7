"""One acquire, and the ways it can end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from ...core.permit import Answer, Claim, Kind, MessageId, Permit, Reason, Refusal, Wait
from ...core.ticket import HIGHEST_PRIORITY, TicketFields
from ..encoding import DEFAULT_MEAN, ResourceClaim, brief, microseconds, resource_claims, seconds
from .messages import Messages
from .waiter import Waiter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .state import MemoryState


@dataclass
class Acquisition:
    """A call for a permit at one instant."""

    state: MemoryState
    claims: Sequence[Claim]
    holder: str
    wait: Wait | None
    message_id: MessageId | None

    def answer(self) -> Answer:
        self.wanted = resource_claims(self.claims)
        self.state.drop(self.wanted)
        for ask in self.wanted:
            self.state.at(ask.resource).declared = ask.limit
        carried = TicketFields.parse(self.wait.ticket) if self.wait else None
        home = self.wanted[0].resource
        self.messages = Messages(self.state, home, self.message_id, carried)
        self.ticket = self._ticket()
        part, whole = self.state.permit_of(self.wanted, self.holder)
        if part and whole:
            return self._permit()
        if part:
            self.state.end_part(self.wanted, self.holder)
        for ask in self.wanted:
            if self.holder in self.state.at(ask.resource).released:
                return self._refused(ask, Reason.RELEASED)
        if reason := self.messages.refusal():
            return self._refused_for_another(reason)
        return self._took_up() or self._asked()

    def _refused_for_another(self, reason: Reason) -> Refusal:
        if reason is Reason.COPY:  # whatever was handed to its ticket meanwhile is for nobody
            self.state.taken_up(self.wanted, self.ticket.nonce)
        return self._refused(self.wanted[0], reason)

    def _took_up(self) -> Permit | None:
        """The permit that was handed on to its wait, if it is for these claims."""
        grant, whole = self.state.grant_to(self.wanted, self.ticket.nonce)
        self.state.end_grant(self.wanted, self.ticket.nonce)
        if not (grant and whole):
            return None
        return self._admitted(grant.token)

    def _asked(self) -> Answer:
        came_back = self._waited() > 0
        if came_back and self.wait and self.wait.kind is not Kind.REQUEUE and self._left() <= 0:
            return self._refused(self.wanted[0], Reason.TIMED_OUT)  # what it came to hear
        for ask in self.wanted:
            if reason := self.state.refusal(ask, self.ticket):
                return self._refused(ask, reason)
        return self._admitted(self.state.new_token(self.wanted))

    def _admitted(self, token: int) -> Permit:
        # Held since now, not since it was granted: what waited for its session or its message would make later turns
        # seem far.
        self.state.write(self.wanted, self.holder, token, self.state.now)
        self.state.forget_ticket(self.wanted, self.ticket.nonce)
        self.messages.admitted(self.holder)
        return self._permit()

    def _permit(self) -> Permit:
        entry = self.state.at(self.wanted[0].resource).holders[self.holder]
        since, ends = seconds(entry.since), seconds(entry.ends)
        epoch = self.state.epoch.id
        return Permit(self.holder, entry.token, tuple(self.claims), since, ends, epoch)

    def _ticket(self) -> TicketFields:
        """Return the wait's own ticket, as it is known here, or a new one.

        A call whose answer was lost carries none: its wait is named by its holder.
        """
        told = self.messages.ticket
        if known := self.state.known(self.wanted, told.nonce if told else self.holder):
            if told:  # what is remembered of its messages outlives the record: it must not be the old ticket
                self.messages.ticket = known
            return known
        priority = min(HIGHEST_PRIORITY, max(0, self.wait.priority if self.wait else 0))
        return told or TicketFields(self.holder, priority, self.state.now)

    def _refused(self, ask: ResourceClaim, reason: Reason) -> Refusal:
        at, wait = self.state.at(ask.resource), self.wait or Wait(Kind.REQUEUE)
        position, left = len(at.line(before=self.ticket)), self._left()
        retry = int(min(left, self._delay(ask, reason, position, wait)))
        kept = self.ticket if self.messages.ticket and reason is Reason.RUNNING else None
        if self.wait and reason not in (Reason.RELEASED, Reason.COPY, Reason.RUNNING):
            if left <= 0:
                self.state.forget_ticket(self.wanted, self.ticket.nonce)
                reason, retry = Reason.TIMED_OUT, 0
            else:
                kept = self.ticket
                self._stand(ask, self.wait, retry)
        if (kept and reason is not Reason.RUNNING) or reason is Reason.RECOVERING:
            self.messages.refused(kept or self.messages.ticket)
        limit, occupied = self.state.limit(ask.resource) or 0, at.occupied()
        claim = next(claim for claim in self.claims if claim.resource == ask.resource)
        text = kept.text if kept else None
        after, since = seconds(retry), seconds(self._waited())
        return Refusal(claim, reason, limit, occupied, text, position, after, since)

    def _stand(self, ask: ResourceClaim, wait: Wait, retry: int) -> None:
        """In the line of the claim that refused, wherever it stood before."""
        before = self.state.forget_ticket(self.wanted, self.ticket.nonce)
        due = self.state.now + retry
        keeps = microseconds(wait.keeps)
        waiter = Waiter(
            self.ticket, wait.kind, brief(self.claims), tuple(self.wanted), due, keeps=keeps
        )
        if wait.session and wait.kind is Kind.BLOCK:  # by the very process that asks for its grants
            self.state.wake(wait.session)
        if wait.session:  # E1, E2
            away = not self.state.is_awake(wait.session)
            waiter = replace(waiter, session=wait.session, away=away)
        if before and before.payload is not None and wait.kind is Kind.PARK:
            # Its message is here already.
            waiter = replace(waiter, payload=before.payload, name=before.name, ends=before.ends)
            waiter = replace(waiter, session="", away=False)
        self.state.at(ask.resource).tickets[waiter.nonce] = waiter

    def _waited(self) -> int:
        return max(0, self.state.now - self.ticket.place)

    def _left(self) -> float:
        """Of the whole wait, in microseconds."""
        if self.wait is None or self.wait.timeout is None:
            return inf
        return microseconds(self.wait.timeout) - self._waited()

    def _delay(self, ask: ResourceClaim, reason: Reason, position: int, wait: Wait) -> float:
        """When a permit can be expected: its turn, by the mean time that permits were held lately."""
        at, limit = self.state.at(ask.resource), self.state.limit(ask.resource)
        mean = DEFAULT_MEAN if at.mean is None else at.mean
        delay: float = self.state.lease
        if limit and reason not in (Reason.UNSATISFIABLE, Reason.RUNNING):
            delay = wait.jitter * (position + 1) / limit * mean
        delay = max(microseconds(wait.shortest), min(microseconds(wait.longest), delay))
        if reason is Reason.RECOVERING:
            delay = max(delay, self.state.epoch.grace_until - self.state.now)
        return delay
