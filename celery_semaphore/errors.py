"""The errors that this library raises, all with one base class."""

from __future__ import annotations


class SemaphoreError(Exception):
    """Base of every error of celery_semaphore."""


class ConfigurationError(SemaphoreError, ValueError):
    """An option, a setting or a server's configuration is wrong; the message says which, and what to do."""


class StoreUnavailable(SemaphoreError):
    """The store did not answer in time, or refused to: no further task gets a permit until it does.

    ``reason`` is the original cause, without the texts that were added on the way.
    """

    def __init__(self, message: str = "", reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = message if reason is None else reason


class ResourceBusy(StoreUnavailable):
    """Other calls kept the resource busy for the whole time of this one; the store answers calls of other resources."""


class StoreFull(StoreUnavailable):
    """The store has no room for what it was given: its memory or its disk is full."""


class SemaphoreSaturated(SemaphoreError):
    """No permit was free, and the caller did not want to wait."""


class SemaphoreTimeout(SemaphoreError):
    """No permit was free during the whole ``wait_timeout``."""


class PermitLost(SemaphoreError):
    """The permit's lease ended while its holder ran: another holder may have it now."""


class UnknownSemaphore(SemaphoreError, LookupError):
    """An operator named a semaphore that is neither used nor declared; the message names the nearest one."""
