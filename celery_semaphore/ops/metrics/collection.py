"""Read the totals of all keys from the store, gently: in batches, with a pause after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import islice

from ...core.store import TOTALLED, Store
from ...metrics.labels import BoundedLabel
from .state import State

PAUSE_S = 0.02  # after each batch, so that tasks acquire in between
COUNTED = 10  # times --max-keys: names of keys beyond that are not even counted, so that memory is bounded


def collect(
    store: Store,
    bound: BoundedLabel,
    declared: Mapping[str, int | None],
    max_keys: int,
    pause: Callable[[float], object] = time.sleep,
) -> State:
    """Return the state of all semaphores, from at most ``max_keys`` keys; the rest is counted as skipped."""
    began = time.monotonic()
    state = State(bound, declared)
    names = islice(store.resources(), COUNTED * max_keys)
    wanted = islice(names, max_keys)
    while batch := list(islice(wanted, TOTALLED)):
        for totals in store.totals(batch):
            state.add(totals)
        pause(PAUSE_S)
    state.skipped = sum(1 for _ in names)
    state.seconds = time.monotonic() - began
    return state
