"""How much of a queue's work can run now."""

from __future__ import annotations

import pytest

from celery_semaphore.core.totals import Totals
from celery_semaphore.metrics.labels import BoundedLabel
from celery_semaphore.ops.metrics.load import Load
from celery_semaphore.ops.metrics.scale import Scale, scale_of
from celery_semaphore.ops.metrics.state import State

from .fakes import key


def scale(
    *keys: Totals, ready: int = 0, skipped: int = 0, unacknowledged: int = 0, **load: int
) -> Scale:
    state = State(BoundedLabel(), {})
    state.skipped = skipped
    for each in keys:
        state.add(each)
    return scale_of(state, Load(**load), ready, unacknowledged)


def test_parked_tasks_behind_a_full_semaphore_start_no_worker() -> None:
    parked = key(limit=5, held=5, parked=495)
    assert scale(parked, running=5) == Scale(runnable=5, waiting=495, floor=1)


def test_what_lies_beside_them_does() -> None:
    parked = key(limit=5, held=5, parked=495)
    assert scale(parked, running=5, prefetched=8, ready=5000).runnable == 5013


def test_waits_that_a_worker_gave_back_start_no_worker() -> None:
    """They are ready until another worker was refused their permits."""
    back = key(limit=5, held=5, in_transit=495)
    assert scale(back, running=5, ready=480, prefetched=15) == Scale(5, 495, 1)


def test_as_many_of_them_as_could_run_do() -> None:
    assert scale(key(limit=5, in_transit=495), ready=495).runnable == 5


def test_each_key_has_its_own_room() -> None:
    """The free permits of one key are of no use to the waits of another."""
    keys = key("t/1", limit=5, held=5, in_transit=10), key("t/2", limit=5, held=1)
    assert scale(*keys, ready=10).runnable == 0


def test_what_runs_is_never_subtracted() -> None:
    """Long tasks would be scaled away; some of the waits in transit may lie in another queue."""
    assert scale(key(limit=5, held=5, in_transit=900), running=4, ready=3).runnable == 4


@pytest.mark.parametrize(
    "left",
    [
        scale(scheduled=1),
        scale(unacknowledged=1),
        scale(key(limit=1, parked=1)),
        scale(key(limit=1, reachable=1)),
        scale(key(limit=1, in_transit=1)),
        scale(key(limit=0, parked=1)),
        scale(key(limit=1, held=1)),
        scale(key(limit=1, granted=1)),
        scale(key(limit=1, outbox=1)),
        scale(ready=1),
        scale(running=1),
        scale(prefetched=1),
        scale(key(limit=1, held=1, in_transit=5), ready=3),
        scale(skipped=1),
    ],
)
def test_one_worker_stays_while_anything_is_left(left: Scale) -> None:
    assert left.floor == 1


def test_none_stays_when_nothing_is_left() -> None:
    assert scale(key(limit=5)) == Scale(runnable=0, waiting=0, floor=0)
