"""``self.permit.check()``: what each answer of the store says of the permits that cover a run."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from celery_semaphore import PermitLost
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.worker.pool_process.permit import TaskPermit

LEASE = 0.3


class Hesitant(MemoryStore):
    """A store that cannot look at some permits now, as a store of many resources may."""

    def __init__(self) -> None:
        super().__init__(StoreOptions(lease=LEASE))
        self.passed_over: set[str] = set()

    def renew(self, permits: Iterable[Permit]) -> dict[str, Renewal]:
        return super().renew([p for p in permits if p.holder not in self.passed_over])

    def grant(self, holder: str) -> Permit:
        answer = self.acquire([Claim(holder, None, 1)], holder)
        assert isinstance(answer, Permit)
        return answer


@pytest.fixture
def store() -> Hesitant:
    return Hesitant()


def first_error(permit: TaskPermit) -> str:
    """Check as a task does in its loop, until there is an error."""
    end = time.monotonic() + 10 * LEASE
    while time.monotonic() < end:
        try:
            permit.check()
        except PermitLost as error:
            return str(error)
        time.sleep(LEASE / 20)
    return "no error"


@pytest.mark.parametrize(
    ("silent", "told"),
    [({"inner"}, "inner"), ({"outer"}, "outer"), ({"inner", "outer"}, "inner")],
)
def test_a_permit_that_is_never_answered_is_taken_for_lost_after_a_lease(
    store: Hesitant, silent: set[str], told: str
) -> None:
    permit = TaskPermit([store.grant("inner"), store.grant("outer")], store)
    store.passed_over = silent
    start = time.monotonic()
    assert first_error(permit).startswith(f"{told}: the store has not confirmed the permit")
    assert time.monotonic() - start > LEASE


def test_answers_in_turn_confirm_each(store: Hesitant) -> None:
    """Each is answered every other time: no permit is without an answer for a lease."""
    permit = TaskPermit([store.grant("inner"), store.grant("outer")], store)
    end, turn = time.monotonic() + 3 * LEASE, ["inner", "outer"]
    while time.monotonic() < end:
        store.passed_over = {turn[0]}
        permit.check()
        turn.reverse()
        time.sleep(LEASE / 20)


def test_a_lost_permit_is_told_beside_one_without_an_answer(store: Hesitant) -> None:
    inner, outer = store.grant("inner"), store.grant("outer")
    permit = TaskPermit([inner, outer], store)
    store.release("outer", outer.claims)
    store.passed_over = {"inner"}
    with pytest.raises(PermitLost, match="outer: the lease ended"):
        permit.check()
