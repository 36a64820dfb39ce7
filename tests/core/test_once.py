"""Once: one of several callers goes through."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from celery_semaphore.core.once import Once

CALLERS = 8


def test_one_of_several_threads_goes_through() -> None:
    with ThreadPoolExecutor(CALLERS) as pool:
        for _ in range(200):
            once, together = Once(), threading.Barrier(CALLERS)

            def take(once: Once = once, together: threading.Barrier = together) -> bool:
                together.wait()
                return once.take()

            assert sum(each.result() for each in [pool.submit(take) for _ in range(CALLERS)]) == 1


def test_it_goes_through_once_more_when_it_is_due_again() -> None:
    once = Once(due=False)
    assert not once.take()
    once.restore()
    assert [once.take(), once.take()] == [True, False]


def test_a_call_that_failed_is_made_again() -> None:
    """As the reply to the broker: its connection may be the next one's by then."""
    once, replies = Once(), list[str]()

    def fail() -> None:
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        once.run(fail)
    once.run(lambda: replies.append("ack"))
    once.run(lambda: replies.append("twice"))
    assert replies == ["ack"]
