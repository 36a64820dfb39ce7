"""Keep the state of all resources of one store, and decide which claims are admitted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from ...core.claim import HIGHEST, OtherClaims
from ...core.key import all_keys_of
from ...core.refusal import Reason
from ...core.session import GRANT_S
from ..encoding import DEFAULT_MEAN, ResourceClaim, microseconds
from .catalogue import Catalogue, WholeCatalogue
from .consumed_queues import Brokers, ConsumedQueues
from .decisions import Decisions
from .declared import Declared
from .epoch import Epoch
from .known_messages import KeptRecords, MessageRecords
from .resource import NOTHING, Entry, Own, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping, Sequence

    from ...core.declared_limit import DeclaredLimit
    from ...core.ticket import Ticket
    from .stored_wait import StoredWait


GRANT = microseconds(GRANT_S)


@dataclass
class StoreState:
    """The state of a store. ``enter`` sets the instant of a call; all other methods use it."""

    resources: MutableMapping[str, Resource] = field(default_factory=dict)
    decisions: Decisions = field(default_factory=Decisions)  # of operators
    messages: MessageRecords = field(default_factory=KeptRecords)
    # The awake ones: when each asked last, and how many grants it can use.
    sessions: MutableMapping[str, int] = field(default_factory=dict)
    rooms: MutableMapping[str, int | None] = field(default_factory=dict)
    now: int = 0
    longest_line: int | None = None  # waits at one resource; a further one keeps no place

    def __post_init__(self) -> None:
        self.catalogue: Catalogue = WholeCatalogue(self.resources)
        self.epoch = Epoch()
        self.consumed_queues = ConsumedQueues()
        self.brokers = Brokers()

    def enter(self, now: int, known: int | None, durations: tuple[int, int]) -> int:
        self.now = now
        return self.epoch.enter(now, known or 0, durations)

    @property
    def lease(self) -> int:
        return self.epoch.lease

    @property
    def take_up(self) -> int:
        return self.epoch.take_up

    @property
    def in_grace(self) -> bool:
        return self.now < self.epoch.grace_until

    @property
    def windows_at(self) -> int:
        """The time by which windows end (A4): it stands still while holders are awaited after a silence (A17)."""
        return self.epoch.permits_ended_by(self.now)

    def is_over(self, entry: Entry) -> bool:
        """Return whether a permit or a grant is over, even if no call has ended it yet."""
        ended_by = self.now if entry.granted else self.epoch.permits_ended_by(self.now)
        return entry.ends <= ended_by and not self.in_grace

    def at(self, name: str) -> Resource:
        found = self.resources.setdefault(name, Resource(name))
        found.touched = self.now
        return found

    def end_overdue(self, wanted: Sequence[ResourceClaim]) -> None:
        for at in [self.at(claim.resource) for claim in wanted]:
            at.cut(self.now, self.epoch.furthest(self.now))
            if not self.in_grace:  # else the store was away: no holder could renew or come back
                ended_by = self.epoch.permits_ended_by(self.now)
                for lapsed in at.end_overdue(self.now, ended_by, self.lease, self.take_up):
                    self._not_taken_up(at, lapsed)

    def _not_taken_up(self, at: Resource, grant: Entry) -> None:
        """E7: put the wait in transit, for its session did not take up the grant.

        If the session did not ask since the grant, or for as long as a grant lasts, it sleeps with all its waits.
        """
        if grant.ticket and (waiter := at.tickets.get(grant.ticket.nonce)):
            if self.sessions.get(waiter.session, 0) <= max(grant.since, self.now - GRANT):
                self.forget_session(waiter.session)
            at.send_off(waiter, self.now)

    # -- sessions

    def is_awake(self, session: str) -> bool:
        return self.sessions.get(session, 0) > self.now - self.lease

    def wake(self, session: str) -> None:
        self.sessions[session] = self.now
        for other in [name for name in self.sessions if not self.is_awake(name)]:
            self.forget_session(other)

    def forget_session(self, session: str) -> None:
        self.sessions.pop(session, None)
        self.rooms.pop(session, None)

    def has_room(self, session: str) -> bool:
        """Return whether the session can use another grant (H11); a wait without a session has its message here."""
        room = self.rooms.get(session)
        return room is None or len(self.catalogue.granted_to(session)) < room

    def is_reachable(self, waiter: StoredWait) -> bool:
        """Return whether the wait can be granted: one of an earlier epoch may have ended in what the store lost."""
        held = waiter.epoch == self.epoch.id and self.is_awake(waiter.session)
        return not waiter.in_transit and (held or not waiter.session)

    def first(self, at: Resource, before: Ticket | None = None) -> StoredWait | None:
        """Return the first wait in line that is reachable, fits the limit in force, and has a session with room (H11).

        Waits before it that are not reachable are put in transit (H5); heavier ones are set aside (H4).
        """
        has_room = cache(self.has_room)  # a line has many waits of few sessions
        limit = self.limit(at.name)
        at.line_up_again(limit)
        for waiter in at.line(before):
            if waiter.in_transit or waiter.aside:
                continue
            if not self.is_reachable(waiter):
                at.send_off(waiter, self.now)
            elif limit != 0 and not waiter.fits(at.name, limit):
                at.set_aside(waiter)
            elif has_room(waiter.session):
                return waiter
        return None

    def sweep(self, wanted: Sequence[ResourceClaim]) -> None:
        """End what is overdue, as a sweep does.

        E5: a wait that is set aside never comes to the head, where a wait that is not reachable is noticed.
        """
        self.end_overdue(wanted)
        for claim in wanted if not self.in_grace else ():
            self._send_off_set_aside(self.at(claim.resource))

    def _send_off_set_aside(self, at: Resource) -> None:
        for waiter in at.line():
            if waiter.aside and not self.is_reachable(waiter):
                at.send_off(waiter, self.now)

    def limit(self, name: str, declared: int | None = None) -> int | None:
        """Return the limit in force; O1: it is 0 during a pause."""
        paused = self.decisions.paused_until(name, self.now) is not None
        return 0 if paused else self.limit_behind(name, declared)

    def limit_behind(self, name: str, declared: int | None = None) -> int | None:
        """Return what is in force without a pause: set for the key, else for its semaphore, else declared lately."""
        known, by_operator = self.declared(name), self.decisions.limit(name)
        if known:
            declared = known.limit
        return declared if by_operator is None else by_operator

    def declare(self, resource: str, limit: int | None, by: str) -> None:
        """A4: note the limit that an acquire or a worker declares; 0 concerns this attempt only."""
        if limit:
            at = self.at(resource)
            known = at.declared and at.declared.carried(self.windows_at, self.now, self.lease)
            at.declared = Declared.noted(known, limit, by, self.now, self.lease)

    def declared(self, resource: str) -> DeclaredLimit | None:
        """Return what is in force of all that was declared lately, at the resource and for all keys (A18)."""
        own, of_all = self.resources.get(resource), self.resources.get(all_keys_of(resource))
        found, bound = None, None
        if "/" in resource and of_all and of_all.declared:
            bound = of_all.declared.lately(self.windows_at, self.lease)
        if own and own.declared and bound:
            found = own.declared.lately(self.windows_at, self.lease)
        elif own and own.declared:
            found = own.declared.in_force(self.windows_at)
        return min(filter(None, (found, bound)), key=lambda each: each.limit, default=None)

    def refusal(self, claim: ResourceClaim, ticket: Ticket) -> Reason | None:
        """Return the reason why this claim refuses, the first of C1 to C5, or None."""
        at, limit = self.at(claim.resource), self.limit(claim.resource, claim.limit) or 0
        occupied = at.occupied() + at.kept_before(ticket) + claim.weight
        if limit == 0:  # C1
            return Reason.PAUSED
        if claim.weight > limit:  # C2
            return Reason.UNSATISFIABLE
        if self.in_grace:  # C3
            return Reason.RECOVERING
        if occupied > limit or self.first(at, before=ticket):  # C4, C5
            return Reason.SATURATED
        return None

    def refusing(
        self, claims: Sequence[ResourceClaim], ticket: Ticket, admits: str | None = None
    ) -> tuple[ResourceClaim, Reason] | None:
        """Return the claim that refuses and its reason, or None; the one on the resource ``admits`` is left out.

        It is the first or, where that is saturated, the slowest of those that are: permits for its weight come most
        slowly (A13).
        """
        saturated = list[ResourceClaim]()
        for claim in claims:
            reason = None if claim.resource == admits else self.refusal(claim, ticket)
            if reason is Reason.SATURATED:
                saturated.append(claim)
            elif reason and not saturated:
                return claim, reason
        if not saturated:
            return None
        known = [mean for each in claims if (mean := self.at(each.resource).mean) is not None]
        usual = max(known, default=DEFAULT_MEAN)
        return max(saturated, key=lambda each: self._comes_in(each, usual)), Reason.SATURATED

    def _comes_in(self, claim: ResourceClaim, usual: float) -> float:
        """Return the time in which permits for this claim come; with the usual mean where none is known."""
        at = self.at(claim.resource)
        mean = usual if at.mean is None else at.mean
        return claim.weight * mean / (self.limit(at.name, claim.limit) or 1)

    def permit_of(self, wanted: Sequence[ResourceClaim], holder: str) -> tuple[Entry | None, bool]:
        """Return what a holder has on these claims, and whether it is whole and alive."""
        found = [self.at(claim.resource).holders.get(holder) for claim in wanted]
        return next(filter(None, found), None), self._is_whole(wanted, found)

    def grant_to(self, wanted: Sequence[ResourceClaim], nonce: str) -> tuple[Entry | None, bool]:
        """Return the grant of a wait on these claims, and whether it is whole."""
        found = [self.at(claim.resource).grants.get(nonce) for claim in wanted]
        return next(filter(None, found), None), self._is_whole(wanted, found)

    def _is_whole(self, wanted: Sequence[ResourceClaim], found: Sequence[Entry | None]) -> bool:
        return all(
            entry and entry.weight == claim.weight and self._lives(claim, entry)
            for claim, entry in zip(wanted, found, strict=True)
        )

    def _lives(self, claim: ResourceClaim, entry: Entry) -> bool:
        """Return whether an entry is alive.

        A grant of an earlier epoch does not count, since it may have been taken up and released.
        """
        if entry.epoch != self.epoch.id and (entry.granted or not self.has_room_for_living(claim)):
            return False
        return not self.is_over(entry)

    def has_room_for_living(self, claim: ResourceClaim, own: Own = NOTHING) -> bool:
        limit = self._limit_of_living(claim)
        return self.at(claim.resource).has_room_for_living(claim.weight, limit, self.epoch.id, own)

    def _limit_of_living(self, claim: ResourceClaim) -> int:
        """Return the limit for permits that are restored; a pause ends none.

        Without one of an operator it is the higher one of what is in force and what this holder declares: the first to
        declare after a loss may be a stray caller. One that declares none was admitted by a limit that may be lost.
        """
        by_operator = self.decisions.limit(claim.resource)
        if by_operator is not None:
            return by_operator
        if claim.limit is None:
            return HIGHEST
        declared = self.declared(claim.resource)
        return max(claim.limit, declared.limit if declared else 0)

    def new_token(self, wanted: Sequence[ResourceClaim]) -> int:
        token = max(self.now, *(self.at(claim.resource).token + 1 for claim in wanted))
        for claim in wanted:
            self.at(claim.resource).token = token
        return token

    def write(
        self,
        wanted: Sequence[ResourceClaim],
        holder: str,
        token: int,
        since: int,
        restored: Sequence[str] = (),
    ) -> None:
        for claim in wanted:
            at = self.at(claim.resource)
            at.token = max(at.token, token)
            entry = Entry(token, since, claim.weight, self.now + self.lease, self.epoch.id)
            at.holders[holder] = replace(entry, restored=claim.resource in restored)

    def check_claims(self, wanted: Sequence[ResourceClaim], nonce: str) -> None:
        """A19: raise ``OtherClaims`` if the wait of this ticket has other claims."""
        if (at := self.catalogue.with_wait(nonce)) and not at.tickets[nonce].claims_the_same(
            wanted
        ):
            raise OtherClaims(at.tickets[nonce].ticket, at.tickets[nonce].claims)

    def has_place(self, wanted: Sequence[ResourceClaim], resource: str, nonce: str) -> bool:
        """Return whether the line there is not too long for one more wait, or already has this one."""
        longest = self.longest_line
        if longest is None or len(self.at(resource).tickets) < longest:
            return True
        return self.standing(wanted, nonce) is not None

    def standing(self, wanted: Sequence[ResourceClaim], nonce: str) -> Resource | None:
        """Return which of these resources has the record of this wait."""
        ats = [self.at(claim.resource) for claim in wanted]
        return next((at for at in ats if nonce in at.tickets), None)

    def known(self, wanted: Sequence[ResourceClaim], nonce: str) -> Ticket | None:
        """Return the ticket of this wait with its rank in the store: an operator may have promoted it."""
        at = self.standing(wanted, nonce)
        return at.tickets[nonce].ticket if at else None

    def forget_ticket(self, wanted: Sequence[ResourceClaim], nonce: str) -> StoredWait | None:
        """Delete a wait; return its record."""
        at = self.standing(wanted, nonce)
        return at.forget(nonce) if at else None

    def end_grant(self, wanted: Sequence[ResourceClaim], nonce: str) -> None:
        for claim in wanted:
            self.at(claim.resource).grants.pop(nonce, None)

    def return_to_line(self, wanted: Sequence[ResourceClaim], nonce: str) -> None:
        """A11: end what is left of the grant of a wait, which stands in line again if it is reachable."""
        for at in [self.at(claim.resource) for claim in wanted]:
            if at.was_sent(nonce):
                at.forget(nonce)
            ended = at.grants.pop(nonce, None)
            waiter = at.tickets.get(nonce)
            if ended and waiter and waiter.session and not self.is_reachable(waiter):
                at.send_off(waiter, self.now)

    def taken_up(self, wanted: Sequence[ResourceClaim], nonce: str) -> None:
        """Delete a wait and its grant: the holder has its permit, or needs none."""
        self.end_grant(wanted, nonce)
        self.forget_ticket(wanted, nonce)

    def granted(self, name: str, token: int) -> str | None:
        """Return the nonce of the wait that has the grant with this token, if any."""
        grants = self.at(name).grants.items()
        return next((nonce for nonce, entry in grants if entry.token == token), None)

    def with_messages(self, names: Iterable[str]) -> list[Resource]:
        """Return the resources with messages of these names, after ending what is overdue there.

        Only then a wait with an overdue grant is in line again.
        """
        found = self.catalogue.with_messages(names)
        self.end_overdue([ResourceClaim(at.name, 0, 0) for at in found])
        return found

    def end_part(self, wanted: Sequence[ResourceClaim], holder: str) -> None:
        """A6: end a permit that the store has on some of its claims only."""
        for claim in wanted:
            self.at(claim.resource).holders.pop(holder, None)
            self.at(claim.resource).mark_released(holder, self.now + self.lease)
