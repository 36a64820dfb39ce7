"""Keep permits in a table of DynamoDB."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from ...core.formats import format_warnings
from ...core.session import NAMED
from ...errors import ConfigurationError
from ..documents.documents import STORE, Key
from ..documents.store import DocumentStore, How, Made
from ..engine.codec import decode_store
from ..engine.epoch import Epoch
from ..one_by_one import one_by_one
from ..options import DEFAULTS, StoreOptions
from .documents import LARGEST_PAYLOAD, DynamoDocuments
from .errors import Denied
from .facts import GROWS, about, durability
from .link import Link
from .table import check_schema, described, expires, install, script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from ...core.durability import Durability
    from ...core.facts import StoreFacts
    from ...core.refusal import Answer
    from ...core.session import HeldWait, Standing
    from ...core.store import Acquire, HandedOn, Release
    from ...core.ticket import Ticket
    from ...errors import SemaphoreError
    from .url import Place

T = TypeVar("T")
ORIGIN = "semaphore_url"
ANSWERS = 5  # of which a worker that starts learns the time,
WRONG_S = 0.1  # unless it may be wrong by less than this already
TOGETHER = 40  # waits that are named in one transaction, which has at most 100 items
_LACKS = "{origin} names {place}, and there is no such table: run `celery -A <your app> semaphore install`."


class DynamoStore(DocumentStore):
    """Keeps permits in one table."""

    def __init__(self, place: Place, options: StoreOptions = DEFAULTS) -> None:
        self._link = Link(place, options.timeout)
        self._dynamo = DynamoDocuments(self._link, options.now)
        super().__init__(self._dynamo, options)

    def _within(self, timeout: float) -> AbstractContextManager[object]:
        return self._link.within(timeout)

    def _attempt(self, made: Made[T], how: How, *, alone: bool) -> T:
        """Let the threads of this process wait for each other, rather than repeat what another one made vain."""
        if not how.concerned:
            return super()._attempt(made, how, alone=alone)
        with self._link.turn(min(how.concerned)):
            return super()._attempt(made, how, alone=alone)

    def check(self, *, parks: bool = False) -> list[str]:
        del parks  # each message is safe here
        place = self._link.place
        try:
            found = described(self._link)
            if found is None:
                raise ConfigurationError(_LACKS.format(origin=ORIGIN, place=place))
            check_schema(found)
            deletes = expires(self._link)
            self._learn_time()
            epoch = self._epoch()
        except Denied as error:
            raise error.as_mistake(ORIGIN) from error
        warnings = [GROWS.format(table=place.table)] if deletes is False else []
        in_force = (epoch.lease, epoch.take_up) if epoch.lease else None
        return warnings + format_warnings(epoch.format) + self._durations.examine(in_force)

    def _learn_time(self) -> None:
        """Ask when the answers say most of the time. A process would have a wrong clock in its first seconds."""
        clock = self._link.clock
        for _ in range(ANSWERS - 1):
            self._epoch()
            if self._dynamo.asks_for_time and clock.error > WRONG_S:
                time.sleep(clock.next_second())

    def about(self) -> StoreFacts:
        has_table = described(self._link) is not None
        return about(self._link.place, self._epoch() if has_table else None)

    def durability(self, most: int) -> Durability:
        parked = self._link.again(lambda: self._dynamo.parked(most))
        return durability(self._link.place, parked, LARGEST_PAYLOAD)

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
        found = super().name(session, waits[:TOGETHER])
        for start in range(TOGETHER, min(len(waits), NAMED), TOGETHER):
            found |= super().name(session, waits[start : start + TOGETHER])
        return found

    def _epoch(self) -> Epoch:
        body = self._link.again(lambda: self._dynamo.begin([Key(STORE)]).get(Key(STORE)))
        return decode_store(body)[0] if body else Epoch()

    def call_all(
        self, calls: Sequence[Acquire | Release]
    ) -> list[Answer | HandedOn | SemaphoreError]:
        return one_by_one(self, calls)

    def install(self) -> list[int]:
        """Make the table if it is missing; return its version then."""
        return install(self._link)

    def script(self) -> str:
        """Return the commands that do what ``install`` does."""
        return script(self._link)

    def close(self) -> None:
        self._link.close()
