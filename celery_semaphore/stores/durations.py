"""Durations: the lease and the take-up in force at a store, as a client of it knows them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..errors import StoreUnavailable
from .encoding import microseconds, seconds

if TYPE_CHECKING:
    from .options import StoreOptions

REPEATS = 5  # of a call, each after another change of the lease while the call was on its way

logger = logging.getLogger(__name__)


class OtherLease(StoreUnavailable):
    """The store keeps another lease or take-up than the call brought, and the call changed nothing."""

    def __init__(self, lease: int, take_up: int) -> None:
        super().__init__("the lease of the store changes too often")
        self.in_force = (lease, take_up)


def new_durations(lease: float, take_up: float | None) -> tuple[int, int]:
    """Return what a store is to keep, in microseconds; raise ``ValueError`` for what is no duration."""
    given = (lease, lease if take_up is None else take_up)
    if not all(0 < each < float("inf") for each in given):
        msg = f"lease={lease!r}, take_up={take_up!r}: each must be a number of seconds above 0"
        raise ValueError(msg)
    return microseconds(given[0]), microseconds(given[1])


class Durations:
    """Holds the lease and the take-up that each call brings, in microseconds.

    They are the client's own until the store answers that it keeps others: those of its first caller, or what an
    operator set (A16).
    """

    def __init__(self, options: StoreOptions) -> None:
        own = (microseconds(options.lease), microseconds(options.grant_lease))
        self._own = own
        self._names_take_up = options.take_up is not None
        self.in_force = own  # replaced as a whole: other threads read it

    def adopt(self, in_force: tuple[int, int]) -> None:
        """Bring what the store keeps from now on, and warn if this is not what the options say."""
        if in_force != self.in_force:
            for found, advice in self._others(in_force):
                logger.warning("%s %s", found, advice)

    def examine(self, in_force: tuple[int, int] | None) -> list[str]:
        """Bring what the store keeps, None if it keeps nothing yet; return the warnings about it."""
        return [] if in_force is None else [*map(" ".join, self._others(in_force))]

    def _others(self, in_force: tuple[int, int]) -> list[tuple[str, str]]:
        """Bring what the store keeps; return what differs, and for each what to do."""
        self.in_force = in_force
        names = ("semaphore_lease", "semaphore_take_up")[: 1 + self._names_take_up]
        own = f"{seconds(self._own[0]):g}"
        return [
            (
                f"{name} is {seconds(mine):g} s here, but the store keeps {seconds(kept):g} s: that is in force.",
                (
                    f"Set {name} = {seconds(kept):g} here (lease= of a Semaphore with url=); or change what the first"
                    f" caller or an operator has set, for all: `celery -A <your app> semaphore lease {own}`."
                ),
            )
            for name, mine, kept in zip(names, self._own, in_force, strict=False)
            if mine != kept
        ]


class BringsDurations:
    """Gives a store the attributes that tell which durations its calls bring."""

    _durations: Durations

    @property
    def lease(self) -> float:
        """The lease in force, as far as this client knows."""
        return seconds(self._durations.in_force[0])

    @property
    def in_force(self) -> tuple[int, int]:
        """The lease and the take-up that each call brings, in microseconds."""
        return self._durations.in_force

    @in_force.setter
    def in_force(self, in_force: tuple[int, int]) -> None:
        self._durations.in_force = in_force
