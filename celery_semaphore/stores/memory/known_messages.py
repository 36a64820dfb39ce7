"""Hold what is known of the messages of one task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...core.ticket import Ticket


@dataclass(frozen=True)
class KnownMessages:
    """The messages of a task that waits or waited: its ticket, and which message was admitted for which holder."""

    ticket: Ticket | None  # for a message delivered again, without the library's header
    until: int
    admitted: str | None = None
    holder: str = ""
    ran: bool = False
