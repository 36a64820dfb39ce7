"""What always holds (chapter 4 of the design), seen from outside: in the snapshots of one store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from celery_semaphore.core.key import all_keys_of
from celery_semaphore.core.permit import Claim, Snapshot
from celery_semaphore.testing.conformance.suite import LEASE


@dataclass
class Promises:
    """Compares each snapshot of a resource with those before; a token that is new tells an admission."""

    over: set[str] = field(default_factory=set)  # holders that gave their permits back
    clock_went_back: bool = False
    _tokens: dict[str, set[int]] = field(default_factory=dict)  # seen at each resource
    # The smallest limit that was declared, by resource and window (A4); a store that forgot knows none.
    declared: dict[tuple[str, int], int] = field(default_factory=dict)

    def declare(self, claims: Iterable[Claim], now: float) -> None:
        for claim in claims:
            if claim.limit:
                known = (claim.resource, int(now // LEASE))
                self.declared[known] = min(claim.limit, self.declared.get(known, claim.limit))

    def check(self, seen: Snapshot) -> None:
        self._the_smallest_lately(seen)
        known = self._tokens.setdefault(seen.resource, set())
        if new := {each.token for each in seen.holders} - known:
            self._never_above_the_limit(seen)
            self._tokens_grow(seen, min(new), max(known, default=0))
        known |= new
        self._never_again(seen)
        self._granted_or_in_line(seen)

    def _the_smallest_lately(self, seen: Snapshot) -> None:
        own, of_all = self._lately(seen.resource, seen.at), None
        if "/" in seen.resource:
            of_all = self._lately(all_keys_of(seen.resource), seen.at)
        if seen.set_by_operator:
            return
        if own is not None:
            smallest = own if of_all is None else min(own, of_all)
            assert seen.limit == smallest, f"not {smallest}, which was declared lately: {seen}"
        elif of_all is not None:  # the last one of its own may be lower
            assert (seen.limit or 0) <= of_all, f"above {of_all}, which is for all keys: {seen}"

    def _lately(self, resource: str, at: float) -> int | None:
        window = int(at // LEASE)
        found = [self.declared.get((resource, each)) for each in (window, window - 1)]
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
