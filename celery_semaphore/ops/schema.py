"""Find stores that need an installation on their server, such as tables, before they can be used."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from ..errors import ConfigurationError
from ..settings import Settings


@runtime_checkable
class Installable(Protocol):
    """Describes a store that has tables of its own."""

    def install(self) -> list[int]:
        """Create what is missing; return the versions that were not installed before."""

    def script(self) -> str:
        """Return the whole SQL script, to be run by hand."""

    def close(self) -> None:
        """Close the connections."""


def store_of(app: Any) -> Installable:
    """Return the app's store; raise ``ConfigurationError`` for one that needs no installation."""
    store = Settings.from_app(app).open_store()
    if isinstance(store, Installable):
        return store
    store.close()
    msg = "The store needs nothing to be installed."
    raise ConfigurationError(msg)
