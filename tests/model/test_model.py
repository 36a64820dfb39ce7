"""Memory, Redis, PostgreSQL and SQLite give the same answers to the same calls."""

import os
import random

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.variants import also

from .machine import machine_on
from .trio import Trio

STEPS = 40  # in one program
EVERY = settings(
    stateful_step_count=STEPS,
    database=None,
    deadline=None,
    print_blob=False,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=set(settings().phases) & {Phase.generate, Phase.shrink},
)
SHRINKING_S = 600  # a failure takes this long at most until its shortest program is found


@pytest.mark.slow
@pytest.mark.timeout(SHRINKING_S)
@pytest.mark.parametrize("programs", [25, *also(100)])
def test_the_same_answers(programs: int, trio: Trio) -> None:
    """1,000 or 4,000 steps, the same each time."""
    some = settings(EVERY, max_examples=programs, derandomize=True)
    run_state_machine_as_test(machine_on(trio), settings=some)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_same_answers_for_long(trio: Trio) -> None:
    """200,000 steps, or as many as ``MODEL_STEPS`` says, others each time; ``MODEL_SEED`` repeats a run."""
    number = int(os.environ.get("MODEL_SEED") or random.SystemRandom().randrange(2**32))
    print(f"MODEL_SEED={number}")  # noqa: T201 - pytest shows it when the test fails
    programs = int(os.environ.get("MODEL_STEPS", "200000")) // STEPS
    machine = seed(number)(machine_on(trio))
    run_state_machine_as_test(machine, settings=settings(EVERY, max_examples=programs))
