"""Define what decides to which server the connections of a pool lead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import redis

Address = tuple[str, int]

PAUSE_S = 0.05  # before the same server is called again
QUESTION_TIMEOUT_S = 0.5  # of one server that is asked where the right one is


class Finder(Protocol):
    """Decides to which server the connections of a pool lead."""

    @property
    def seeks(self) -> bool:
        """Whether another server may take the place of the one that fails."""

    def look(self) -> None:
        """Find the server before a call, if it is time."""

    def leads_to(self, connection: Any) -> bool:
        """Return whether this connection leads to the server."""

    def follow(self, error: redis.RedisError, deadline: float) -> None:
        """Find the server after this error."""

    def explain(self, error: redis.RedisError) -> None:
        """Note at the error which server gave it."""
