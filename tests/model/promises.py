"""What always holds (chapter 4 of the design), seen from outside: in the snapshots of one store."""

from __future__ import annotations

from dataclasses import dataclass, field

from celery_semaphore.core.permit import Snapshot


@dataclass
class Promises:
    """Compares each snapshot of a resource with those before; a token that is new tells an admission."""

    over: set[str] = field(default_factory=set)  # holders that gave their permits back
    clock_went_back: bool = False
    _tokens: dict[str, set[int]] = field(default_factory=dict)  # seen at each resource

    def check(self, seen: Snapshot) -> None:
        known = self._tokens.setdefault(seen.resource, set())
        if new := {each.token for each in seen.holders} - known:
            self._never_above_the_limit(seen)
            self._tokens_grow(seen, min(new), max(known, default=0))
        known |= new
        self._never_again(seen)
        self._granted_or_in_line(seen)

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
