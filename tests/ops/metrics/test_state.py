"""The sums of a collection."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from celery_semaphore.core.key import resource_name
from celery_semaphore.core.totals import Totals
from celery_semaphore.metrics.catalogue import MAX_SEMAPHORES, OF_THE_STORE, OTHER
from celery_semaphore.metrics.labels import BoundedLabel
from celery_semaphore.metrics.metric import PREFIX
from celery_semaphore.ops.metrics.collection import BATCH, COUNTED, LONGEST_PAUSE_S, collect
from celery_semaphore.ops.metrics.state import State, blocked_of, idle_of

from .fakes import FakeStore, key


def summed(*keys: Totals, declared: Sequence[str] = ()) -> State:
    state = State(BoundedLabel(), declared)
    for each in keys:
        state.add(each)
    return state


def found(state: State) -> dict[tuple[str, ...], float]:
    prefix = PREFIX
    return {
        (metric.name.removeprefix(prefix), *labels): value
        for metric, labels, value in state.figures()
    }


def test_a_pause_leaves_the_capacity_that_is_in_use() -> None:
    """No permit is free then, though few are held, and the limit behind it is shown."""
    seen = found(
        summed(
            key("api/1", limit=5, held=1, reachable=2, paused=True),
            key("api/2", limit=5, held=5, paused=True, set_by_operator=True),
        )
    )
    mine = {name: value for name, value in seen.items() if value and name[1] == "api"}
    assert mine == {
        ("limit", "api", "declared"): 5,
        ("limit", "api", "operator"): 5,
        ("capacity", "api"): 6,
        ("permits", "api", "held"): 6,
        ("keys", "api", "used"): 2,
        ("keys", "api", "paused"): 2,
        ("waiting", "api", "kept"): 2,
    }


def test_keys_of_one_semaphore_are_summed() -> None:
    seen = found(
        summed(
            key("tenant/1", limit=2, held=2, parked=3, oldest_wait=4.0),
            key("tenant/2", limit=3, held=1, granted=1, in_transit=1, oldest_wait=9.0),
            key("tenant/3", limit=0, set_by_operator=True, reachable=2, set_aside=1),
            key("tenant/4", limit=2, outbox=2, outbox_oldest=1.5),
            key("other", limit=7, held=1),
        )
    )
    mine = {name: value for name, value in seen.items() if name[1] == "tenant"}
    assert mine == {
        ("limit", "tenant", "declared"): 2,
        ("limit", "tenant", "operator"): 0,
        ("permits", "tenant", "held"): 3,
        ("permits", "tenant", "granted"): 1,
        ("capacity", "tenant"): 7,
        ("keys", "tenant", "used"): 4,
        ("keys", "tenant", "saturated"): 1,
        ("keys", "tenant", "paused"): 1,
        ("waiting", "tenant", "parked"): 3,
        ("waiting", "tenant", "kept"): 2,
        ("waiting", "tenant", "in_transit"): 1,
        ("idle_while_waiting", "tenant"): 0,
        ("oldest_wait_seconds", "tenant"): 9.0,
        ("unsatisfiable", "tenant"): 1,
        ("outbox", "tenant"): 2,
        ("outbox_oldest_seconds", "tenant"): 1.5,
    }
    assert seen["limit", "other", "declared"] == 7


def test_each_metric_of_the_store_has_its_labels() -> None:
    samples = list(summed(key(limit=1, held=1)).figures())
    assert {metric for metric, _, _ in samples} == set(OF_THE_STORE)
    assert all(len(metric.labels) == len(labels) for metric, labels, _ in samples)


@pytest.mark.parametrize(
    ("of", "idle"),
    [
        (key(limit=5, held=2, parked=2), 2),
        (key(limit=5, held=2, parked=2, reachable=9), 3),
        (key(limit=5, held=2, granted=3, parked=2), 0),
        (key(limit=5, held=7, parked=2), 0),  # the limit was lowered
        (key(limit=0, parked=2), 0),
        (key(limit=5, in_transit=2), 0),
        (key(limit=5, reachable=2, set_aside=2), 0),  # no permit is large enough
    ],
)
def test_free_permits_beside_waits_that_can_be_granted_them(of: Totals, idle: int) -> None:
    assert idle_of(of) == idle


@pytest.mark.parametrize(
    ("of", "blocked"),
    [
        (key(limit=5, held=5, in_transit=300), 300),
        (key(limit=5, held=2, in_transit=300), 297),
        (key(limit=5, held=2, granted=1, in_transit=300), 298),
        (key(limit=5, held=2, parked=2, reachable=1, in_transit=300), 300),
        (key(limit=5, held=2, parked=9, in_transit=300), 300),
        (key(limit=5, in_transit=3), 0),
        (key(limit=0, in_transit=3), 3),
        (key(limit=5, held=9, in_transit=3), 3),
        (key(limit=5, held=5, parked=300), 0),
    ],
)
def test_waits_in_transit_that_could_not_run(of: Totals, blocked: int) -> None:
    assert blocked_of(of) == blocked


def test_a_key_without_use_is_not_counted() -> None:
    """The store's list of keys may lag."""
    seen = found(summed(key("tenant/1", limit=2), declared=["tenant"]))
    assert seen["keys", "tenant", "used"] == seen["capacity", "tenant"] == 0


def test_declared_semaphores_are_there_before_their_use() -> None:
    state = summed(declared=["api", "other"])
    state.add_limit(key("api", limit=5))
    state.add_limit(key("other"))
    seen = found(state)
    assert seen["limit", "api", "declared"] == 5
    assert seen["permits", "api", "held"] == seen["permits", "other", "held"] == 0
    assert ("limit", "other", "declared") not in seen


def test_names_are_bounded_and_keep_their_labels() -> None:
    bound = BoundedLabel()
    first = State(bound, {})
    for number in range(MAX_SEMAPHORES + 50):
        first.add(key(f"s{number}", limit=1, held=1))
    assert len(first.semaphores) == MAX_SEMAPHORES + 1
    assert first.semaphores[OTHER].held == 50
    again = State(bound, {})
    for number in (MAX_SEMAPHORES + 7, 3):
        again.add(key(f"s{number}", limit=1, held=1))
    assert set(again.semaphores) == {OTHER, "s3"}


@pytest.mark.parametrize("name", ['a"b\\', "a\nb", "\x00", "x" * 10_000, "\ud800", "~", ""])
def test_any_name_becomes_a_label(name: str) -> None:
    state = summed(key(resource_name(name, None), limit=1, held=1))
    (label,) = state.semaphores
    assert len(label.encode("utf-8")) < 200
    if len(name) < 100 and name != "\ud800":
        assert label == name


def test_no_key_is_a_label() -> None:
    state = summed(key("tenant/canary-7", limit=1, held=1))
    assert not [each for each in found(state) if "canary" in "".join(each)]


def test_a_collection_goes_in_batches_with_pauses() -> None:
    fake = FakeStore(*(key(f"k/{n}", limit=1, held=1) for n in range(120)))
    pauses: list[float] = []
    state = collect(fake.store, BoundedLabel(), {}, 50_000, pauses.append)
    assert fake.asked == [BATCH, BATCH, 20]
    assert len(pauses) == 3
    assert all(0 < each <= LONGEST_PAUSE_S for each in pauses)
    assert (state.semaphores["k"].used, state.skipped) == (120, 0)


def test_keys_above_the_bound_are_skipped_and_counted() -> None:
    fake = FakeStore(*(key(f"k/{n}", limit=1, held=1) for n in range(120)))
    state = collect(fake.store, BoundedLabel(), {}, 70, lambda _: None)
    assert fake.asked == [BATCH, 20]
    assert (state.semaphores["k"].used, state.skipped) == (70, 50)


def test_names_far_above_the_bound_are_not_even_read() -> None:
    fake = FakeStore(*(key(f"k/{n}", limit=1, held=1) for n in range(1000)))
    state = collect(fake.store, BoundedLabel(), {}, 10, lambda _: None)
    assert state.skipped == (COUNTED - 1) * 10
