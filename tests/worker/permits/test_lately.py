"""Lately: the last names, and not all."""

from __future__ import annotations

from celery_semaphore.worker.permits.lately import MOST, Lately


def test_the_last_thousand_are_known_and_memory_is_bounded() -> None:
    lately, names = Lately(), [f"name-{n}" for n in range(3 * MOST + 1)]
    for n, name in enumerate(names):
        assert name not in lately
        lately.add(name)
        assert name in lately
        assert names[max(n - MOST + 1, 0)] in lately
    assert sum(name in lately for name in names) <= 2 * MOST
