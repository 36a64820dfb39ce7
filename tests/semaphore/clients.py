"""A context manager around a semaphore, as users write it: its end is a method of its own."""

from __future__ import annotations

from celery_semaphore import Semaphore
from celery_semaphore.core.permit import Permit


class Client:
    """Holds a permit while it is open."""

    def __init__(self, api: Semaphore) -> None:
        self._api = api

    def __enter__(self) -> Permit:
        return self._api.__enter__()

    def close(self) -> None:
        self._api.__exit__(None, None, None)

    def __exit__(self, *error: object) -> None:
        self.close()
