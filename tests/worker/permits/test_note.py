"""Notes: what a pool process writes of its permits arrives whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.events import PermitAcquiredEvent
from celery_semaphore.core.key import MAX_NAME_BYTES
from celery_semaphore.core.permit import Permit
from celery_semaphore.worker.permits.note import NotePipe


def noted(*claims: Claim) -> list[Claim]:
    """What a worker's main process knows of the claims that a pool process asked for."""
    found = list[Claim]()
    observer: Any = SimpleNamespace(asked=lambda _, claims: found.extend(claims))
    pipe = NotePipe()
    try:
        pipe.asked("x" * 36, claims)
        assert pipe.drain(observer)
    finally:
        pipe.close()
    return found


@pytest.mark.parametrize("key", [None, "x", "x" * 10_000, "é\n" * 3000])
def test_a_note_of_a_long_key(key: str | None) -> None:
    """What is released is what was acquired, however long its key is."""
    claim = Claim("api", key, 3, 2)
    assert [(c.resource, c.limit, c.weight) for c in noted(claim)] == [(claim.resource, 3, 2)]


@pytest.mark.parametrize("length", [MAX_NAME_BYTES, MAX_NAME_BYTES + 1])
def test_a_note_of_many_limits_with_long_keys(length: int) -> None:
    """Beside the resource it holds only the beginning of each key, and so has room for more of them."""
    claims = [Claim(f"api{n:02}", "x" * length, 3) for n in range(17)]
    assert [c.resource for c in noted(*claims)] == [c.resource for c in claims]


@pytest.mark.parametrize(
    ("name", "arrives"), [("shop.call", True), ('é"\n' * 100, True), ("é" * 5000, False)]
)
def test_a_note_of_a_permit_arrives_whatever_the_name_of_its_task_is(
    name: str, arrives: bool
) -> None:
    found: list[Any] = []
    observer: Any = SimpleNamespace(held=lambda acquired, *_: found.append(acquired))
    pipe = NotePipe()
    try:
        permit = Permit("x" * 36, 1, (), 1.5, 31.5, 7)
        pipe.held(PermitAcquiredEvent(permit, name, 1.25, 0.001), 2.0)
        assert pipe.drain(observer)
    finally:
        pipe.close()
    assert found == [PermitAcquiredEvent(permit, name if arrives else "", 1.25, 0.001)]
