"""Decide one acquire: rows A3 to A14 of docs/maintain/architecture.md."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from ...core.claim import Claim
from ...core.message_id import MessageId
from ...core.names import process_name
from ...core.permit import Permit
from ...core.refusal import Answer, Reason, Refusal
from ...core.ticket import HIGHEST_PRIORITY, Ticket
from ...core.wait import Kind, Wait
from ..encoding import (
    DEFAULT_MEAN,
    DEFAULT_WAIT,
    ResourceClaim,
    brief,
    microseconds,
    resource_claims,
    seconds,
)
from .kept_room import end_kept_room
from .messages import Messages
from .stored_wait import StoredWait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .state import StoreState


@dataclass
class Acquisition:
    """One call of acquire, at one instant."""

    state: StoreState
    claims: Sequence[Claim]
    holder: str
    wait: Wait | None
    message_id: MessageId | None

    def answer(self) -> Answer:
        self.wanted = resource_claims(self.claims)
        self.state.end_overdue(self.wanted)  # A3
        for claim in self.wanted:  # A4
            self.state.declare(claim.resource, claim.limit, process_name())
        # C1: a callable says that the task must not run now.
        self.refuses_itself = next((claim for claim in self.wanted if claim.limit == 0), None)
        carried = self.wait.ticket if self.wait else None
        home = self.wanted[0].resource
        self.messages = Messages(self.state, home, self.message_id, carried)
        self.ticket = self._ticket()
        part, whole = self.state.permit_of(self.wanted, self.holder)
        if part and whole:  # A5
            return self._permit()
        if part:
            self.state.end_part(self.wanted, self.holder)
        for claim in self.wanted:
            if self.state.at(claim.resource).released.has(self.holder):  # A7
                return self._refused(claim, Reason.RELEASED)
        self.state.check_claims(self.wanted, self.ticket.nonce)  # A19
        if reason := self.messages.refusal():  # A8, A9
            return self._refused_for_another(reason)
        return self._took_up() or self._asked()

    def _refused_for_another(self, reason: Reason) -> Refusal:
        if reason is Reason.COPY:  # A8: the wait is over, so a grant of its ticket ends too
            self.state.taken_up(self.wanted, self.ticket.nonce)
        else:
            self.messages.note_run()
        return self._refused(self.wanted[0], reason)

    def _took_up(self) -> Permit | None:
        """Take up the grant of the wait, if it lasts on all claims (A10, E8); else end what is left of it (A11)."""
        grant, whole = self.state.grant_to(self.wanted, self.ticket.nonce)
        if grant and whole and not self.refuses_itself:
            self.state.end_grant(self.wanted, self.ticket.nonce)
            return self._admitted(grant.token)
        self.state.return_to_line(self.wanted, self.ticket.nonce)
        return None

    def _asked(self) -> Answer:
        called = self.wait is not None and self.wait.kind is Kind.BLOCK
        if called and self._waited() > 0 and self._left() <= 0:
            return self._refused(self.wanted[0], Reason.TIMED_OUT)  # A12: even if there is room now
        if self.refuses_itself:
            return self._refused(self.refuses_itself, Reason.PAUSED)
        if refusing := self.state.refusing(self.wanted, self.ticket):  # A13
            return self._refused(*refusing)
        return self._admitted(self.state.new_token(self.wanted))  # A14, E9

    def _admitted(self, token: int) -> Permit:
        # Count the permit as held from now on: the time from the grant to here would make the expected waits too long.
        self.state.write(self.wanted, self.holder, token, self.state.now)
        self.state.forget_ticket(self.wanted, self.ticket.nonce)
        self._end_kept_room()
        self.messages.admitted(self.holder)
        return self._permit()

    def _permit(self) -> Permit:
        entry = self.state.at(self.wanted[0].resource).holders[self.holder]
        since, ends = seconds(entry.since), seconds(entry.ends)
        epoch = self.state.epoch.id
        return Permit(self.holder, entry.token, tuple(self.claims), since, ends, epoch)

    def _ticket(self) -> Ticket:
        """Return the ticket of the wait with the rank in the store, or a new one.

        A holder that began its wait in a call that lost its answer has no ticket: then the nonce is its own name.
        """
        told, anew = self.messages.ticket, self.messages.begins_anew
        if not anew and (
            known := self.state.known(self.wanted, told.nonce if told else self.holder)
        ):
            if told:  # the record of the messages outlives the wait: it must have its place
                self.messages.ticket = known
            return known
        priority = min(HIGHEST_PRIORITY, max(0, self.wait.priority if self.wait else 0))
        if told and anew:  # A15
            self.messages.ticket = told = replace(told, priority=priority, place=self.state.now)
        return told or Ticket(self.holder, priority, self.state.now)

    def _refused(self, claim: ResourceClaim, reason: Reason) -> Refusal:
        at, wait = self.state.at(claim.resource), self.wait or DEFAULT_WAIT
        position, left = len(at.line(before=self.ticket)), self._left()
        retry = int(self._delay(claim, reason, position, wait))
        if reason is not Reason.RUNNING:  # it does not wait while it runs
            retry = int(min(left, retry))
        kept = None  # also of A9: the wait ended when that message was admitted
        if self.wait and reason not in (Reason.RELEASED, Reason.COPY, Reason.RUNNING):
            if left <= 0:
                self.state.forget_ticket(self.wanted, self.ticket.nonce)
                reason, retry = Reason.TIMED_OUT, 0
            elif self.state.has_place(self.wanted, at.name, self.ticket.nonce):  # else S0
                kept = self.ticket
                self._stand(claim, self.wait, retry)
            elif self.wait.kind is Kind.BLOCK:  # it is told of no grant
                retry = int(min(left, self._delay(claim, reason, position, DEFAULT_WAIT)))
        if not (wait.kind is Kind.BLOCK and reason is Reason.SATURATED):  # else it only asks again
            self._end_kept_room()
        if kept or reason is Reason.RECOVERING:
            self.messages.refused(kept or self.messages.ticket)
        limit, occupied = self._limit(claim) or 0, at.occupied()
        kept_room = at.kept_before(self.ticket)
        asked = next(each for each in self.claims if each.resource == claim.resource)
        after, since = seconds(retry), seconds(self._waited())
        by = self._declared_by(claim) if reason is Reason.UNSATISFIABLE else ""
        return Refusal(asked, reason, limit, occupied, kept, position, after, since, by, kept_room)

    def _end_kept_room(self) -> None:  # A20
        for name in end_kept_room(self.state, self.wanted, self.ticket.nonce):
            self.state.at(name).reaped_at = 0  # the next reaper hands on

    def _declared_by(self, claim: ResourceClaim) -> str:
        by_operator = self.state.decisions.limit(claim.resource) is not None
        declared = self.state.declared(claim.resource)
        return declared.by if declared and not by_operator else ""

    def _limit(self, claim: ResourceClaim) -> int | None:
        return 0 if claim.limit == 0 else self.state.limit(claim.resource)

    def _stand(self, claim: ResourceClaim, wait: Wait, retry: int) -> None:
        """Put the wait into the line of the claim that refused."""
        before = self.state.forget_ticket(self.wanted, self.ticket.nonce)
        due = self.state.now + retry
        keeps = microseconds(wait.keeps)
        waiter = StoredWait(
            self.ticket, wait.kind, brief(self.claims), tuple(self.wanted), due, keeps=keeps
        )
        if wait.session and wait.kind is Kind.BLOCK:  # the same process asks for its grants
            self.state.wake(wait.session)
        if self.refuses_itself:  # E17
            self.state.at(claim.resource).tickets[waiter.nonce] = waiter
            return
        if wait.session:  # E1, E2
            away = not self.state.is_awake(wait.session)
            epoch = self.state.epoch.id
            waiter = replace(waiter, session=wait.session, epoch=epoch, away=away)
        if before and before.payload is not None and wait.kind is Kind.PARK:
            # Its message is in the store already.
            waiter = replace(waiter, payload=before.payload, name=before.name, ends=before.ends)
            waiter = replace(waiter, broker=before.broker, session="", away=False)
        self.state.at(claim.resource).tickets[waiter.nonce] = waiter

    def _waited(self) -> int:
        return max(0, self.state.now - self.ticket.place)

    def _left(self) -> float:
        """Return the microseconds that are left of the wait's timeout."""
        if self.wait is None or self.wait.timeout is None:
            return inf
        return microseconds(self.wait.timeout) - self._waited()

    def _delay(self, claim: ResourceClaim, reason: Reason, position: int, wait: Wait) -> float:
        """Return the delay until a permit can be expected: by the position in line and the mean time of permits."""
        at, limit = self.state.at(claim.resource), self._limit(claim)
        mean = DEFAULT_MEAN if at.mean is None else at.mean
        delay: float = self.state.lease
        if reason is Reason.RUNNING:  # that run may end, or die
            delay = min(self.state.lease // 3, self.messages.runs_until() - self.state.now)
        elif limit and reason is not Reason.UNSATISFIABLE:
            delay = wait.jitter * (position + 1) / limit * mean
        delay = max(microseconds(wait.shortest), min(microseconds(wait.longest), delay))
        if reason is Reason.RECOVERING:
            delay = max(delay, self.state.epoch.grace_until - self.state.now)
        return delay
