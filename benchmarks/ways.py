"""Name the ways in which a benchmark runs limited tasks: by which task of `app`, and by which release."""

from __future__ import annotations

import os
from dataclasses import dataclass

BEFORE = (
    "BENCH_BEFORE"  # the environment variable with the path to a checkout of the release before
)


@dataclass(frozen=True)
class Way:
    """Describes a way; ``before`` runs the workers by the release that ``--before`` names."""

    task: str
    label: str
    before: bool = False


DEFAULT = Way("default", "by default")
PARK = Way("park", "parked")
REQUEUE = Way("requeue", "requeued")
BY_HAND = Way("by_hand", "by hand")
UNLIMITED = Way("unlimited", "without a limit, by as many processes")

OURS = (DEFAULT, PARK, REQUEUE)
OF_BEFORE = (
    Way("default", "by default, before", before=True),
    Way("park", "parked, before", before=True),
)


def ours() -> tuple[Way, ...]:
    """Return the ways of this library, also of the release before if one is given."""
    return OURS + (OF_BEFORE if os.environ.get(BEFORE) else ())
