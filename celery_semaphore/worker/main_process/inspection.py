"""Answer ``celery inspect semaphore`` with what each worker knows of its limited tasks, without the store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from celery.worker.control import Panel

from ...core.names import task_id_of
from .load import add_load_command

if TYPE_CHECKING:
    from ...core.claim import Claim
    from ..keeping.kept_message import KeptMessage
    from ..limiter import Limiter
    from ..permits.delivery import Delivery

SHOWN = 100  # of each list: one answer must not fill the broker
HELP = (
    "Show the tasks that have permits, and those that the worker keeps until they are granted one."
)


def add_inspect_command() -> None:
    """Register ``celery inspect semaphore``, and the count of tasks, with workers and with Celery's command line."""
    Panel.register(
        name="semaphore", type="inspect", help=HELP, signature="[shown=100]", args=[("shown", int)]
    )(inspect_worker)
    add_load_command()


def inspect_worker(state: Any, shown: int = SHOWN, **_: Any) -> dict[str, object]:
    """Return the permits and the kept messages of this worker, ``shown`` of each at most. Durations are in seconds.

    Waits that are parked, in transit, or outside tasks are in no worker: ``celery semaphore show`` queries the store.
    """
    from ..limiter import LIMITER  # the command line loads this module with each of its commands

    limiter: Limiter | None = state.app.__dict__.get(LIMITER)
    if limiter is None:  # no task of this worker is limited
        return {}
    limiter.drain()
    permits = limiter.process.ledger.permits()
    messages = limiter.worker.kept
    kept = messages.line() if messages else []
    turns = expected_turns(kept, messages.session.turns() if messages else {})
    now = time.monotonic()
    return {
        "permits": [_permit(each, now) for each in permits[:shown]],
        "more_permits": max(len(permits) - shown, 0),
        "waiting": [_waiting(*each, now) for each in zip(kept[:shown], turns, strict=False)],
        "more_waiting": max(len(kept) - shown, 0),
    }


def expected_turns(
    line: Sequence[KeptMessage], told: dict[str, float | None]
) -> Iterator[float | None]:
    """Yield the expected time of each turn; None if it is unknown, as in a pause, and for the waits behind that one."""
    still = set[tuple[str, ...]]()  # the resources of a wait that does not move
    for kept in line:
        if kept.wait is None:
            yield kept.due
            continue
        resources = tuple(claim.resource for claim in kept.wait.claims)
        turn = told.get(kept.wait.ticket.nonce, kept.expected)
        if turn is None:
            still.add(resources)
        yield None if resources in still else turn


def _permit(delivery: Delivery, now: float) -> dict[str, object]:
    return {
        "id": task_id_of(delivery.holder),
        "name": getattr(delivery.task, "name", None),
        "semaphores": _semaphores(delivery.claims),
        "held_for": round(now - delivery.since, 3),
    }


def _waiting(kept: KeptMessage, turn: float | None, now: float) -> dict[str, object]:
    claims = kept.wait.claims if kept.wait else ()
    return {
        "id": kept.request.id,
        "name": kept.request.name,
        "semaphores": _semaphores(claims),
        "expected_in": None if turn is None else round(max(turn - now, 0.0), 3),
    }


def _semaphores(claims: Sequence[Claim]) -> list[dict[str, object]]:
    return [
        {"semaphore": each.semaphore, "key": each.key, "weight": each.weight} for each in claims
    ]
