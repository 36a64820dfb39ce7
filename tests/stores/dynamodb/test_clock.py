"""What is known of a server's time by the whole seconds that its answers say."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.utils import formatdate
from math import floor

import pytest
from hypothesis import given, settings, strategies as st

from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.dynamodb.clock import DRIFT, SKEW, ServerClock

STEADY = settings(deadline=None, derandomize=True, max_examples=60)
START = 1_800_000_000.0

rates = st.floats(1 - DRIFT, 1 + DRIFT)
delays = st.floats(0, 0.3)  # seconds on each way
pauses = st.floats(0, 30)
skews = st.floats(-SKEW, SKEW)  # of the host that answers
answers = st.lists(st.tuples(pauses, delays, delays, skews), min_size=1, max_size=40)


@dataclass
class Simulated:
    """A server, and a process whose monotonic clock has another rate, and begins anywhere."""

    ahead: float = START
    rate: float = 1.0
    here: float = 5000.0
    clock: ServerClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = ServerClock(lambda: self.here)

    @property
    def there(self) -> float:
        return self.ahead + (self.here - 5000.0) * self.rate

    def ask(self, out: float = 0.0025, back: float = 0.0025, skew: float = 0.0) -> None:
        sent = self.here
        self.here += out
        said = floor(self.there + skew)
        self.here += back
        self.clock.hear(formatdate(said, usegmt=True), sent, self.here)

    def wrong_by(self) -> float:
        return abs(self.clock.now() / 1e6 - self.there)


@given(rates, st.floats(0, 1), answers)
@STEADY
def test_it_is_never_more_wrong_than_it_says(
    rate: float, ahead: float, heard: list[tuple[float, float, float, float]]
) -> None:
    """Also with hosts behind one address that differ, slow answers, and a local clock of another rate."""
    there = Simulated(START + ahead, rate)
    for pause, *how in heard:
        there.here += pause
        there.ask(*how)
        assert there.wrong_by() <= there.clock.error + 1e-5
        there.here += pause
        assert there.wrong_by() <= there.clock.error + 1e-5


@given(st.floats(0, 1), delays, delays)
@STEADY
def test_one_answer_bounds_it(ahead: float, out: float, back: float) -> None:
    there = Simulated(START + ahead)
    there.ask(out, back)
    assert there.clock.error <= (1 + out + back) / 2 + SKEW + 1e-5


@given(st.floats(0, 1), st.lists(st.floats(0.001, 0.2), min_size=300, max_size=300))
@STEADY
def test_many_answers_leave_little_in_doubt(ahead: float, pauses: list[float]) -> None:
    there = Simulated(START + ahead)
    for pause in pauses:
        there.here += pause
        there.ask()
    assert there.clock.error < SKEW + 0.1
    assert there.wrong_by() < 0.1


@given(st.floats(0, 1))
@STEADY
def test_each_answer_at_the_right_moment_halves_the_doubt(ahead: float) -> None:
    """Without it (one answer after the other) five answers within a second say as much as one."""
    there = Simulated(START + ahead)
    waited = 0.0
    for _ in range(5):
        there.ask()
        there.here += there.clock.next_second()
        waited += there.clock.next_second()
    assert there.clock.error < 0.5 / 2**4 + SKEW + 0.02
    assert waited <= 5


@given(st.floats(-1e6, 1e6).filter(lambda jump: abs(jump) > 3))
@STEADY
def test_a_clock_that_is_set_is_believed_at_once(jump: float) -> None:
    """Without it (the bounds that do not meet are kept) there is no time at all, or one of before."""
    there = Simulated()
    for _ in range(20):
        there.here += 0.3
        there.ask()
    there.ahead += jump
    there.ask()
    assert there.wrong_by() <= there.clock.error + 1e-5
    assert there.clock.error < 1


def test_old_knowledge_is_worth_less() -> None:
    """Without it a local clock that is a bit fast is believed for ever."""
    there = Simulated()
    for _ in range(50):
        there.here += 0.3
        there.ask()
    before = there.clock.error
    there.here += 3600
    assert there.clock.error == pytest.approx(before + 3600 * DRIFT)


def test_it_is_not_before_what_others_wrote_if_that_can_be() -> None:
    there = Simulated()
    there.ask()
    now = there.clock.now()
    assert there.clock.now(now - 5) == now
    assert there.clock.now(now + 100_000) == now + 100_000
    latest = there.clock.now() + round(there.clock.error * 1e6)
    assert there.clock.now(now + 10**12) == pytest.approx(latest, abs=10)


def test_without_an_answer_there_is_no_time() -> None:
    clock = ServerClock()
    assert clock.error == float("inf")
    with pytest.raises(StoreUnavailable, match="Date header"):
        clock.now()
    with pytest.raises(StoreUnavailable, match="'yesterday'"):
        clock.hear("yesterday", 1, 2)
