"""What becomes of an attempt that was refused for what its task asks, not for what others hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait_policy import OnSaturated, WaitPolicy
from celery_semaphore.errors import SemaphoreSaturated
from celery_semaphore.worker.messages.hourly_warnings import HourlyWarnings
from celery_semaphore.worker.pool_process import refusal
from celery_semaphore.worker.pool_process.destination import Destination
from celery_semaphore.worker.pool_process.refused_attempt import Refused, RefusedAttempt

TASK: Any = SimpleNamespace(name="t", request=SimpleNamespace(id="x", is_eager=True))
TICKET = Ticket("x:1", 0, 7)


@pytest.fixture(autouse=True)
def _no_warning_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal, "_warnings", HourlyWarnings(refusal.logger))


def answer(claim: Claim, reason: Reason, how: OnSaturated, limit: int, by: str = "") -> Exception:
    refused = Refusal(claim, reason, limit, 0, TICKET, 0, 30.0, 0.0, by)
    return refusal.refusal_of(
        TASK, "1", refused, [claim], WaitPolicy(how, 0.1, 60.0, None), keeps=True
    )


def attempt(error: Exception) -> RefusedAttempt:
    assert isinstance(error, Refused)
    return error.attempt


@pytest.mark.parametrize(
    ("own", "how", "to"),
    [
        (0, OnSaturated.REQUEUE, Destination.KEPT),
        (0, OnSaturated.PARK, Destination.KEPT),
        (0, OnSaturated.DROP, Destination.DROPPED),
        (5, OnSaturated.REQUEUE, Destination.IN_LINE),
        (5, OnSaturated.PARK, Destination.PARKED),
    ],
)
def test_a_task_whose_callable_says_zero_is_kept_in_no_line(
    own: int, how: OnSaturated, to: Destination
) -> None:
    """Its worker asks the callable again after the delay: E17. A pause by an operator is another thing."""
    found = attempt(answer(Claim("api", None, own), Reason.PAUSED, how, 0))
    assert (found.destination, found.ticket) == (to, TICKET)
    assert ("the task's own limit is 0 now" in found.reason) == (own == 0)
    assert how is OnSaturated.DROP or found.delay == 30.0


@pytest.mark.parametrize("how", [OnSaturated.REQUEUE, OnSaturated.PARK])
def test_a_weight_above_the_limit_in_force_is_warned_of(
    how: OnSaturated, caplog: pytest.LogCaptureFixture
) -> None:
    heavy = Claim("a b", None, 50, weight=3)
    for by in ("worker@b", "worker@b", ""):
        answer(heavy, Reason.UNSATISFIABLE, how, 1 if by == "" else 2, by)
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(told) == 2, "once an hour for each limit"
    assert "its weight 3 is above the limit 2 in force, declared by worker@b." in told[0]
    assert "`celery -A your_app semaphore limit 'a b' N`" in told[0]
    assert "its weight 3 is above the limit 1 in force, set by an operator." in told[1]


def test_all_keys_are_warned_of_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """There may be thousands, and none is named."""
    for key in "xy":
        heavy = Claim("api", key, 5, 2, f"api/{key}")
        answer(heavy, Reason.UNSATISFIABLE, OnSaturated.PARK, 1, "w")
    assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 1


def test_a_task_that_fails_says_who_declared_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    heavy = Claim("api", None, 50, weight=3)
    error = answer(heavy, Reason.UNSATISFIABLE, OnSaturated.FAIL, 2, "worker@b")
    assert isinstance(error, SemaphoreSaturated)
    assert "its weight 3 is above the limit 2 in force, declared by worker@b" in str(error)
    assert not [each for each in caplog.records if each.levelname == "WARNING"]
