"""Renewals: many leases extended in few calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.formats import NewerFormat
from ...core.permit import Permit, Renewal, Renewals
from ..asking import Ask, asks, microseconds
from . import scripts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .connection import Word
    from .runner import Call, Runner

MANY = 100  # permits that one script renews: the server does nothing else meanwhile


class Renewer:
    """Renews permits over a runner."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def renew(self, permits: Sequence[Permit]) -> Renewals:
        """Renew all of them; of one that the server refuses for ever there is no answer."""
        try:
            renewals = self._renewed_together(permits)
            others = [permit for permit in permits if permit.holder not in renewals]
            return renewals | self._renewed_each(others)
        except NewerFormat:
            said = self._renewed_in_newer(permits)
            return _renewals(permits, said)

    def _renewed_together(self, permits: Sequence[Permit]) -> Renewals:
        """Renew those that are plainly there, which costs the server a fraction."""
        parts = [permits[start : start + MANY] for start in range(0, len(permits), MANY)]
        said = self._runner.run_each(scripts.RENEW_MANY, list(map(self._many, parts)))
        return {
            permit.holder: Renewal.OK
            for part, answer in zip(parts, said, strict=True)
            if answer is not None
            for permit, extended in zip(part, answer[1].decode(), strict=True)
            if extended == "1"
        }

    def _many(self, permits: Sequence[Permit]) -> Call:
        keys: list[bytes] = []
        words: list[Word] = [len(permits)]
        for permit in permits:
            wanted, since = asks(permit.claims), microseconds(permit.acquired_at)
            keys += [self._runner.keys_of(ask.resource) for ask in wanted]
            words += [permit.holder, len(wanted)]
            words += [f"{permit.token} {since} {ask.weight} " for ask in wanted]
        return [], words, (2 * len(keys), b"".join(keys))

    def _renewed_each(self, permits: Sequence[Permit]) -> Renewals:
        calls: list[Call] = []
        for permit in permits:
            wanted, since = asks(permit.claims), microseconds(permit.acquired_at)
            words: list[Word] = [permit.holder, permit.token, since, permit.epoch]
            calls.append((wanted, [*words, *figures_of(wanted)]))
        return _renewals(permits, self._runner.run_each(scripts.RENEW, calls))

    def _renewed_in_newer(self, permits: Sequence[Permit]) -> list[list[Any]]:
        calls: list[Call] = []
        for permit in permits:
            wanted = asks(permit.claims)
            words: list[Word] = [permit.holder, *(ask.weight for ask in wanted)]
            calls.append((wanted, words))
        return self._runner.run_all(scripts.RENEW_NEWER, calls)


def _renewals(permits: Sequence[Permit], said: Sequence[list[Any] | None]) -> Renewals:
    answered = zip(permits, said, strict=True)
    return {each.holder: Renewal(one[1].decode()) for each, one in answered if one is not None}


def figures_of(wanted: list[Ask]) -> list[Word]:
    """Return limit and weight of each, as scripts want them."""
    return [figure for ask in wanted for figure in (ask.limit, ask.weight)]
