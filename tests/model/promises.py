"""What always holds (chapter 4 of the design), seen from outside: in the snapshots of one store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.key import all_keys_of
from celery_semaphore.core.snapshot import Snapshot
from celery_semaphore.core.task_wait import TaskWait
from celery_semaphore.stores.encoding import microseconds
from tests.conformance.suite import LEASE


@dataclass
class Promises:
    """Compares each snapshot of a resource with those before; a token that is new tells an admission."""

    over: set[str] = field(default_factory=set)  # holders that gave their permits back
    clock_went_back: bool = False
    _tokens: dict[str, set[int]] = field(default_factory=dict)  # seen at each resource
    # The smallest limit that was declared, by resource and window (A4); a store that forgot knows none.
    declared: dict[tuple[str, int], int] = field(default_factory=dict)

    _called: int | None = None  # when a call was noted last, and what follows from that (A17)
    _silent_since: int = 0
    _awaited_until: int = 0

    def call(self, now: float) -> None:
        """A17: after a silence the windows stand still, until all had time to declare again."""
        at, last, lease = microseconds(now), self._called, microseconds(LEASE)
        if last is not None and abs(at - last) * 10 < lease:
            return
        if last is not None and at < last:
            self._awaited_until = 0
        elif last is not None and at - last > lease * 2 // 3:
            self._silent_since, self._awaited_until = last, at + lease * 2 // 3
        self._called = at

    def forget(self) -> None:
        self.declared.clear()
        self.over.clear()  # the tombstones are lost, too
        self._called, self._awaited_until = None, 0

    def declare(self, claims: Iterable[Claim], now: float) -> None:
        self.call(now)
        for claim in claims:
            if claim.limit:
                known = (claim.resource, int(now // LEASE))
                before = self.declared.get(known)
                if before is None and self._is_awaited(now):
                    before = self._lately(claim.resource, now)
                self.declared[known] = min(claim.limit, before or claim.limit)

    def _is_awaited(self, at: float) -> bool:
        return microseconds(at) < self._awaited_until

    def check(self, seen: Snapshot) -> None:
        self.call(seen.at)
        self._the_smallest_lately(seen)
        known = self._tokens.setdefault(seen.resource, set())
        if new := {each.token for each in seen.holders} - known:
            self._never_above_the_limit(seen)
            self._tokens_grow(seen, min(new), max(known, default=0))
        known |= new
        self._never_again(seen)
        self._granted_or_in_line(seen)

    def check_waits(self, task: str, found: list[TaskWait], seen: Iterable[Snapshot]) -> None:
        """Compare the waits that are found by the id of their task with those that all resources show."""
        lines = {
            (each.resource, waiter.ticket.nonce): waiter
            for each in seen
            for waiter in each.waiters
            if waiter.ticket.nonce.startswith(f"{task}:")
        }
        waiting = {(each.resource, each.waiter.ticket.nonce): each for each in found}
        assert lines.keys() <= waiting.keys()
        for at, waiter in lines.items():
            assert waiting[at].waiter == waiter
        grants = {
            (each.resource, held.holder): held.expires_at
            for each in seen
            for held in each.holders
            if held.granted
        }
        for at, each in waiting.items():
            assert each.granted_until == grants.get(at)

    def _the_smallest_lately(self, seen: Snapshot) -> None:
        own, of_all = self._lately(seen.resource, seen.at), None
        if "/" in seen.resource:
            of_all = self._lately(all_keys_of(seen.resource), seen.at)
        if seen.set_by_operator:
            return
        if own is not None:
            smallest = own if of_all is None else min(own, of_all)
            assert seen.limit == smallest, f"not {smallest}, which was declared lately: {seen}"
        elif of_all is not None:  # its own one is over
            assert seen.limit == of_all, f"not {of_all}, which is for all keys: {seen}"

    def _lately(self, resource: str, at: float) -> int | None:
        first = self._silent_since / 1_000_000 if self._is_awaited(at) else at
        windows = range(int(first // LEASE) - 1, int(at // LEASE) + 1)
        found = [self.declared.get((resource, each)) for each in windows]
        return min((limit for limit in found if limit is not None), default=None)

    def _never_above_the_limit(self, seen: Snapshot) -> None:
        # Of a message that is granted after the store forgot, only its own claim knows the limit.
        assert seen.limit is None or seen.occupied <= seen.limit, f"above the limit: {seen}"
        assert seen.paused_until is None, f"admitted in a pause: {seen}"

    def _tokens_grow(self, seen: Snapshot, new: int, last: int) -> None:
        # A store that forgot the last token goes on with its clock.
        assert self.clock_went_back or new > last, f"not above {last}: {seen}"

    def _never_again(self, seen: Snapshot) -> None:
        again = {each.holder for each in seen.holders if not each.granted} & self.over
        assert not again, f"released, and has a permit again: {again}"

    def _granted_or_in_line(self, seen: Snapshot) -> None:
        granted = {each.holder for each in seen.holders if each.granted}
        waiting = [each.ticket.nonce for each in seen.waiters]
        assert len(waiting) == len(set(waiting)), f"twice in one line: {seen}"
        assert granted.isdisjoint(waiting), f"granted, and in line: {seen}"
