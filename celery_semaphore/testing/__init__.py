"""For users' tests, and for other people's stores (``celery_semaphore.testing.conformance``)."""

from __future__ import annotations

from ..stores.memory import MemoryStore
from .clock import Clock

__all__ = ["Clock", "MemoryStore"]
