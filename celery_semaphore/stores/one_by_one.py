"""Make the calls of ``call_all`` one after the other, for stores that have no round trip to save."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.store import Acquire
from ..errors import SemaphoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.refusal import Answer
    from ..core.store import HandedOn, Release, Store


def one_by_one(
    store: Store, calls: Sequence[Acquire | Release]
) -> list[Answer | HandedOn | SemaphoreError]:
    """Return the answer or the error of each call; if the store does not answer one, that is the answer of the rest."""
    answers: list[Answer | HandedOn | SemaphoreError] = []
    for call in calls:
        answers.append(made(store, call))
        if isinstance(answers[-1], StoreUnavailable):
            break
    return answers + answers[-1:] * (len(calls) - len(answers))


def made(store: Store, call: Acquire | Release) -> Answer | HandedOn | SemaphoreError:
    try:
        if isinstance(call, Acquire):
            return store.acquire(call.claims, call.holder, call.wait, call.message_id)
        return store.release(call.holder, call.claims)
    except SemaphoreError as error:
        return error
