"""Name the granted queue that belongs to a queue, and the other way round."""

from __future__ import annotations

from collections.abc import Collection

GRANTED = ".granted"  # suffix of the short queue by which granted messages overtake a backlog


def granted_queue(queue: str) -> str:
    """Return the name of the queue by which this queue's parked messages come back."""
    return queue + GRANTED


def home_queue(queue: str, homes: Collection[str]) -> str:
    """Return the queue of ``homes`` that a granted queue belongs to; for any other queue, return that queue."""
    home = queue.removesuffix(GRANTED)
    return home if home in homes else queue
