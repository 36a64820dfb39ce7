"""What a store needs in its server before it can keep anything there."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from ..errors import ConfigurationError
from ..settings import Settings


@runtime_checkable
class Installable(Protocol):
    """A store with tables of its own."""

    def install(self) -> list[int]:
        """Make what is missing; answers the versions that it had not."""

    def script(self) -> str:
        """All of it, for those who run it themselves."""

    def close(self) -> None:
        """Close the connections."""


def store_of(app: Any) -> Installable:
    """The app's store; raises ``ConfigurationError`` for one that needs nothing of the kind."""
    store = Settings.from_app(app).open_store()
    if isinstance(store, Installable):
        return store
    store.close()
    msg = "The store needs nothing to be installed."
    raise ConfigurationError(msg)
