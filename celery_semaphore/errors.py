"""Every error raised here: one root, few children."""

from __future__ import annotations


class SemaphoreError(Exception):
    """Base of every error of celery_semaphore."""


class ConfigurationError(SemaphoreError, ValueError):
    """An option, a setting or a server's configuration is wrong; says which, and what to do."""


class StoreUnavailable(SemaphoreError):
    """The store did not answer in time, or refused to: nobody new runs until it does.

    ``reason`` is why, without the words of those who passed it on.
    """

    def __init__(self, message: str = "", reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = message if reason is None else reason


class SemaphoreSaturated(SemaphoreError):
    """No permit was free, and the caller did not want to wait."""


class SemaphoreTimeout(SemaphoreError):
    """No permit was free during the whole ``wait_timeout``."""


class PermitLost(SemaphoreError):
    """The permit's lease ended while its holder ran: somebody else may hold it now."""


class UnknownSemaphore(SemaphoreError, LookupError):
    """An operator named a semaphore that nobody uses or declares; says which is nearest."""
