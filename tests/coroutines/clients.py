"""A context manager around a semaphore, as users write it: its end is a method of its own."""

from __future__ import annotations

from celery_semaphore import AsyncSemaphore
from celery_semaphore.core.permit import Permit


class Client:
    """Holds a permit while it is open."""

    def __init__(self, api: AsyncSemaphore) -> None:
        self._api = api

    async def __aenter__(self) -> Permit:
        return await self._api.__aenter__()

    async def aclose(self) -> None:
        await self._api.__aexit__(None, None, None)

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
