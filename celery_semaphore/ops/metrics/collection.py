"""Read the totals of all keys from the store, gently: in batches, with a pause after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from itertools import chain, islice

from ...core.key import any_key_of
from ...core.store import Store
from ...metrics.labels import BoundedLabel
from .state import State

BATCH = 50  # keys in one call: Redis does nothing else meanwhile, and tasks that acquire notice 500
PAUSES = 5  # times the duration of a batch, so that tasks acquire in between …
LONGEST_PAUSE_S = 0.02  # … but a slow store does not make a collection endless
COUNTED = 10  # times --max-keys: names of keys beyond that are not even counted, so that memory is bounded


def collect(
    store: Store,
    bound: BoundedLabel,
    declared: Collection[str],
    max_keys: int,
    pause: Callable[[float], object] = time.sleep,
) -> State:
    """Return the state of all semaphores, from at most ``max_keys`` keys; the rest is counted as skipped.

    Of those that are ``declared`` by a task of the app the limit in force is there even if nothing uses them.
    """
    began = time.monotonic()
    state = State(bound, declared)
    names = islice(store.resources(), COUNTED * max_keys)
    wanted = islice(names, max_keys)
    unused = chain.from_iterable((name, any_key_of(name)) for name in declared)
    for of, add in ((wanted, state.add), (unused, state.add_limit)):
        while batch := list(islice(of, BATCH)):
            asked = time.monotonic()
            for totals in store.totals(batch):
                add(totals)
            pause(min(PAUSES * (time.monotonic() - asked), LONGEST_PAUSE_S))
    state.skipped = sum(1 for _ in names)
    state.seconds = time.monotonic() - began
    return state
