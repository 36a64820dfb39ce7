"""Find resources by what they keep: hints name them, and what counts is what the resources say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.catalogue import WholeCatalogue
from ..engine.codec import decode_name
from .documents import GRANT, MESSAGE, RESOURCE, WAIT, Key
from .hints import wait_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..engine.resource import Entry, Resource
    from .documents import Transaction
    from .loaded_resources import LoadedResources


class DocumentCatalogue:
    """Loads what the hints name, and then looks through what is loaded. ``due`` are the resources to be reaped."""

    def __init__(
        self, transaction: Transaction, resources: LoadedResources, due: Iterable[str]
    ) -> None:
        self._transaction, self._resources = transaction, resources
        self._due = due
        self._loaded = WholeCatalogue(resources)

    def granted_to(self, session: str) -> list[tuple[str, Entry]]:
        self._load(GRANT, session)
        return self._loaded.granted_to(session)

    def with_wait(self, nonce: str) -> Resource | None:
        if found := self._loaded.with_wait(nonce):
            return found
        if hint := self._transaction.get(wait_key(nonce)):
            self._resources[decode_name(hint)]
        return self._loaded.with_wait(nonce)

    def with_waits_of(self, task_id: str) -> list[Resource]:
        self._load(WAIT, task_id)
        return self._loaded.with_waits_of(task_id)

    def with_messages(self, names: Iterable[str]) -> list[Resource]:
        wanted = [*names]
        for name in wanted:
            self._load(MESSAGE, name)
        return self._loaded.with_messages(wanted)

    def of(self, name: str) -> list[str]:
        return [*dict.fromkeys([*self._loaded.of(name), *self._transaction.keys_of(name)])]

    def in_use(self) -> list[str]:
        return self._transaction.in_use()

    def overdue(self, limit: int, now: int) -> list[Resource]:
        del now  # the server has chosen
        due = [self._resources[name] for name in self._due]
        return [at for at in due if not at.idle()][:limit]

    def drop_idle(self, before: int) -> None:
        """Do nothing: the server deletes what has expired."""

    def _load(self, kind: str, name: str) -> None:
        names = [decode_name(hint) for hint in self._transaction.all_of(kind, name).values()]
        self._transaction.expect([Key(RESOURCE, each) for each in names])
        for each in names:
            self._resources[each]
