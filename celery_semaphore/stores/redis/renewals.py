"""Renew many leases in few calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Permit, Renewal, Renewals
from ..encoding import ResourceClaim, microseconds, resource_claims
from . import scripts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .connection import Word
    from .runner import Call, Runner

MANY = 100  # permits that one script renews: other calls wait meanwhile


class Renewer:
    """Renews permits through a runner."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def renew(self, permits: Sequence[Permit]) -> Renewals:
        """Renew permits; there is no answer for one that the server always refuses."""
        renewals = self._renewed_together(permits)
        others = [permit for permit in permits if permit.holder not in renewals]
        return renewals | self._renewed_alike(others)

    def _renewed_together(self, permits: Sequence[Permit]) -> Renewals:
        """Renew the permits that are unchanged in the store, at a fraction of the cost."""
        parts = _parts(permits)
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
            wanted, since = resource_claims(permit.claims), microseconds(permit.acquired_at)
            keys += [self._runner.keys_of(claim.resource) for claim in wanted]
            words += [permit.holder, len(wanted)]
            words += [f"{permit.token} {since} {claim.weight} " for claim in wanted]
        return [], words, (2 * len(keys), b"".join(keys))

    def _renewed_alike(self, permits: Sequence[Permit]) -> Renewals:
        """Renew permits on the same resources in one call, which reads these resources once."""
        alike: dict[tuple[str, ...], list[Permit]] = {}
        for permit in permits:
            resources = tuple(claim.resource for claim in resource_claims(permit.claims))
            alike.setdefault(resources, []).append(permit)
        parts = [part for same in alike.values() for part in _parts(same)]
        renewals = self._renewed(parts)
        # Perhaps only one permit's record is broken: it must cost no other permit its lease.
        refused = [part for part in parts if len(part) > 1 and part[0].holder not in renewals]
        return renewals | self._renewed([[permit] for part in refused for permit in part])

    def _renewed(self, parts: Sequence[Sequence[Permit]]) -> Renewals:
        said = self._runner.run_each(scripts.RENEW, list(map(_alike, parts)))
        return {
            permit.holder: Renewal(became)
            for part, answer in zip(parts, said, strict=True)
            if answer is not None
            for permit, became in zip(part, answer[1].decode().split(), strict=True)
        }


def _parts(permits: Sequence[Permit]) -> list[Sequence[Permit]]:
    return [permits[start : start + MANY] for start in range(0, len(permits), MANY)]


def _alike(permits: Sequence[Permit]) -> Call:
    words: list[Word] = [len(permits)]
    for permit in permits:
        wanted = resource_claims(permit.claims)
        words += [permit.holder, permit.token, microseconds(permit.acquired_at), permit.epoch]
        words += figures_of(wanted)
    return wanted, words


def figures_of(wanted: list[ResourceClaim]) -> list[Word]:
    """Return limit and weight of each claim, in the order of the scripts' arguments."""
    return [figure for claim in wanted for figure in (said(claim.limit), claim.weight)]


def said(limit: int | None) -> Word:
    """Return the limit that a claim declares as the scripts take it: empty if it declares none."""
    return "" if limit is None else limit
