"""Find resources by what they keep: for the few calls that concern more than the resources they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ...core.key import semaphore_of

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

    from .resource import Entry, Resource


class Catalogue(Protocol):
    """Finds resources of the whole store."""

    def granted_to(self, session: str) -> list[tuple[str, Entry]]:
        """Return the nonces and the grants of this session's waits."""
        ...

    def with_wait(self, nonce: str) -> Resource | None:
        """Return the resource with the record of this wait, the only one in the store."""
        ...

    def with_waits_of(self, task_id: str) -> list[Resource]:
        """Return the resources with records of waits of this task: their nonces are its id, a colon, and a name."""
        ...

    def with_messages(self, names: Iterable[str]) -> list[Resource]:
        """Return the resources with parked messages of these names, in line or granted."""
        ...

    def of(self, name: str) -> list[str]:
        """Return the names of this resource and of all keys of the semaphore, as far as they are in use."""
        ...

    def in_use(self) -> list[str]:
        """Return the names of all resources with permits, grants or waits."""
        ...

    def overdue(self, limit: int, now: int) -> list[Resource]:
        """Return at most so many resources in use, those that were reaped longest ago first."""
        ...

    def drop_idle(self, before: int) -> None:
        """Delete the resources that keep nothing and that no call has touched since then."""
        ...


@dataclass
class WholeCatalogue:
    """Looks through all resources, which are in this process."""

    resources: MutableMapping[str, Resource]

    def granted_to(self, session: str) -> list[tuple[str, Entry]]:
        return [
            (nonce, entry)
            for at in self.resources.values()
            for nonce, entry in at.grants.items()
            if (waiter := at.tickets.get(nonce)) and waiter.session == session
        ]

    def with_wait(self, nonce: str) -> Resource | None:
        return next((at for at in self.resources.values() if nonce in at.tickets), None)

    def with_waits_of(self, task_id: str) -> list[Resource]:
        return [at for at in self.resources.values() if at.waits_of(task_id)]

    def with_messages(self, names: Iterable[str]) -> list[Resource]:
        return [at for at in self.resources.values() if at.has_message(names)]

    def of(self, name: str) -> list[str]:
        return [each for each in self.resources if name in (each, semaphore_of(each))]

    def in_use(self) -> list[str]:
        return [name for name, at in self.resources.items() if not at.idle()]

    def overdue(self, limit: int, now: int) -> list[Resource]:
        used = [at for at in self.resources.values() if not at.idle()]
        used.sort(key=lambda at: at.reaped_at if at.reaped_at <= now else 0)
        return used[:limit]

    def drop_idle(self, before: int) -> None:
        for name, at in list(self.resources.items()):
            if at.idle() and at.touched < before:
                del self.resources[name]
