"""Hold what is known of the messages of one task, and of all tasks of a store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...core.ticket import Ticket

Name = tuple[str, str]  # the first resource of a task's claims, and the name of the task's messages


@dataclass(frozen=True)
class KnownMessages:
    """The messages of a task that waits or waited: its ticket, and which message was admitted for which holder."""

    ticket: Ticket | None  # for a message delivered again, without the library's header
    until: int
    admitted: str | None = None
    holder: str = ""
    ran: bool = False


class MessageRecords(Protocol):
    """The records of all tasks' messages."""

    def get(self, name: Name, now: int) -> KnownMessages | None:
        """Return the record of a task's messages, unless it has expired."""
        ...

    def put(self, name: Name, record: KnownMessages) -> None:
        """Write a record."""
        ...

    def delete(self, name: Name) -> None:
        """Delete a record, if there is one."""
        ...


@dataclass
class KeptRecords:
    """Keeps the records in this process, newest last."""

    records: dict[Name, KnownMessages] = field(default_factory=dict)

    def get(self, name: Name, now: int) -> KnownMessages | None:
        while self.records and next(iter(self.records.values())).until <= now:
            del self.records[next(iter(self.records))]
        found = self.records.get(name)
        return found if found and found.until > now else None

    def put(self, name: Name, record: KnownMessages) -> None:
        self.delete(name)  # newest last
        self.records[name] = record

    def delete(self, name: Name) -> None:
        self.records.pop(name, None)
