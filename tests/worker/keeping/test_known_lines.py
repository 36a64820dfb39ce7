"""KnownLines: until when a line is known, and how many."""

from __future__ import annotations

from celery_semaphore.core.claim import Claim
from celery_semaphore.worker.keeping.known_lines import LONGEST_S, MOST, KnownLines
from tests.worker.requests import ONE


def test_a_line_is_known_until_the_turn_of_the_last_one() -> None:
    now = 1000.0
    lines = KnownLines(lambda: now)
    claims = [ONE, Claim("two", "k", 1)]
    assert not lines
    lines.refused("one", claims, 0.5)
    assert lines.include([ONE])
    assert not lines.include(claims[1:])
    now += 0.5
    assert not lines.include([ONE])
    lines.refused("one", claims, 60.0)
    now += LONGEST_S / 2
    assert lines.include(claims)
    lines.refused("one", claims, 60.0)
    now += LONGEST_S / 2
    assert lines.include([ONE])
    assert lines
    now += LONGEST_S / 2
    assert not lines.include([ONE])
    assert not lines, "so a task that never waits is not looked at"


def test_a_sender_that_invents_keys_fills_no_memory() -> None:
    lines = KnownLines()
    for n in range(MOST + 10):
        lines.refused("one", [Claim("one", str(n), 1)], 60.0)
    lines.refused("one", [Claim("one", "10", 1)], 60.0)  # so it is not the oldest any more
    lines.refused("one", [Claim("one", "new", 1)], 60.0)
    assert len(lines._until) == MOST
    assert lines.include([Claim("one", "10", 1)])
    assert not lines.include([Claim("one", "11", 1)])
    assert lines.include([Claim("one", str(MOST + 9), 1)])
    assert not lines.include([Claim("one", "9", 1)])
