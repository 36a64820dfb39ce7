"""Stand between a store and its documents, to run something between a read and a commit, or to lose an answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from celery_semaphore.stores.documents.documents import Busy, Changes, Documents, Key
from celery_semaphore.stores.dynamodb import DynamoStore
from celery_semaphore.stores.sql.store import SqlStore

KeptInDocuments = SqlStore | DynamoStore
Step = Callable[[], object]


class Died(Exception):
    """The client died."""


class Between:
    """Passes everything on; each of its steps happens once."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self.alone_after = documents.alone_after
        self.largest_payload = documents.largest_payload
        self.largest_line = documents.largest_line
        self.before_commit: list[Step] = []
        self.after_commit: list[Step] = []
        self.lost_answers = 0
        self.refuses: Callable[[Changes], bool] = lambda _: False
        self.writes_until: int | None = None  # it cannot write all at once, and dies after so many
        self.attempts = 0
        self.alone: list[bool] = []
        self.keys: list[Collection[Key]] = []  # that each attempt has named
        self.commits: list[tuple[Changes, Changes]] = []

    def begin(self, keys: Collection[Key], **how: Any) -> HeldTransaction:
        self.attempts += 1
        self.alone.append(how["alone"])
        self.keys.append(keys)
        return HeldTransaction(self, self._documents.begin(keys, **how))

    def sweep(self, now: int, limit: int) -> list[str]:
        return self._documents.sweep(now, limit)


class HeldTransaction:
    def __init__(self, between: Between, transaction: Any) -> None:
        self._between, self._transaction = between, transaction

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def commit(self, changes: Changes, marks: Changes) -> bool:
        between = self._between
        if between.before_commit:
            between.before_commit.pop(0)()
        if between.refuses(changes):
            return False
        if between.writes_until is not None:
            return self._torn(changes, marks, between.writes_until)
        kept: bool = self._transaction.commit(changes, marks)
        if kept:
            between.commits.append((changes, marks))
            if between.after_commit:
                between.after_commit.pop(0)()
            if between.lost_answers:
                between.lost_answers -= 1
                raise Busy("the answer was lost")
        return kept

    def _torn(self, changes: Changes, marks: Changes, until: int) -> bool:
        """Write as a server does that has no transaction: marks, then changes, then what is deleted of the marks."""
        first = [(key, each) for key, each in marks.items() if each]
        last = [(key, each) for key, each in marks.items() if not each]
        for n, (key, each) in enumerate([*first, *sorted(changes.items()), *last]):
            if n == until:
                raise Died
            one = {key: each}
            if not self._transaction.commit(*(({}, one) if key in marks else (one, {}))):
                return False
        return True


class Held(NamedTuple):
    store: KeptInDocuments
    between: Between
