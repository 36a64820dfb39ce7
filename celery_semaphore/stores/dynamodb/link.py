"""Send requests to DynamoDB, each for a bounded time, and hear from each answer what the time is."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, Any, TypeVar

from boto3.session import Session
from botocore.config import Config
from botocore.loaders import create_loader
from botocore.session import Session as CoreSession

from ...errors import StoreUnavailable
from ..connection_limit import ConnectionLimit
from ..documents.attempts import repeated
from ..documents.documents import Busy
from ..non_reentrant_lock import NonReentrantLock
from .clock import clock_of
from .errors import Driver, headers_of, translated
from .items import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..connection_limit import Place
    from .url import Place as TablePlace

T = TypeVar("T")

TURNS = 64  # of resources, by a digest of their names
MAX_CONNECTIONS = 10  # of one process
# Of the time of a call: what one request has for a connection, and then for its answer.
CONNECT_PART, ANSWER_PART = 0.125, 0.25
# A child closes none of its parent's connections: with TLS it would tell the server so.
_inherited: list[Any] = []
# What the driver knows of AWS's services: read once, also for the children of this process. It has no lock.
_descriptions = create_loader()


class _OfThread(local):
    """What a thread has by itself: the time of its call, and a lock that refuses a signal handler in a request."""

    lock: NonReentrantLock | None = None
    last: float | None = None  # when the last request of its call may begin
    busy: str = ""  # why the last request of the call was in vain


class Link:
    """A client of one table. The driver repeats nothing: a call that is repeated reads anew."""

    def __init__(self, place: TablePlace, timeout: float) -> None:
        self.place, self.timeout = place, timeout
        self.clock = clock_of(place.endpoint_url or place.region)
        self._begin()

    def _begin(self) -> None:
        self._client: Any = None
        self._making = NonReentrantLock(self.timeout)
        self._of_thread = _OfThread()
        self._turns = [ConnectionLimit(1, self.timeout) for _ in range(TURNS)]
        self._pid = os.getpid()  # last: another thread must not take what the parent had

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Let no request of this thread last longer than this; to make the client takes a time of its own."""
        self._made()
        mine = self._of_thread
        # The last request may take its whole time. A short call, of which there may be many, may take a bit longer.
        last = time.monotonic() + seconds - min(self.timeout * ANSWER_PART, seconds / 2)
        before, mine.busy = mine.last, ""
        mine.last = last
        try:
            yield
        finally:
            mine.last = before

    def turn(self, name: str) -> Place:
        """Return the right to be the only thread of this process that makes an attempt at this resource."""
        self._made()
        return self._turns[hash(name) % TURNS].place()

    def again(self, call: Callable[[], T]) -> T:
        """Make a call of one request or several again while the table is busy, or not reached."""
        with self.within(self.timeout):
            return repeated(lambda _: call(), self.timeout)

    def call(self, operation: str, **given: Any) -> dict[str, Any]:
        """Make one request about the table; raise an error of the store if it has no answer in time."""
        return self.asked(operation, TableName=self.place.table, **given)

    def read(self, keys: Sequence[Item]) -> list[Item]:
        """Return the items with these keys, at most 100, as they are now."""
        table, items, wanted = self.place.table, list[Item](), [*keys]
        while wanted:
            given = {table: {"Keys": wanted, "ConsistentRead": True}}
            answer = self.asked("batch_get_item", RequestItems=given)
            items += answer["Responses"].get(table, [])
            left = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
            self._check_progress(wanted, left)
            wanted = left
        return items

    def write(self, requests: Sequence[dict[str, Any]]) -> None:
        """Write or delete items, at most 25, whatever is there."""
        table, wanted = self.place.table, [*requests]
        while wanted:
            answer = self.asked("batch_write_item", RequestItems={table: wanted})
            left = answer.get("UnprocessedItems", {}).get(table, [])
            self._check_progress(wanted, left)
            wanted = left

    def _check_progress(self, wanted: Sequence[object], left: Sequence[object]) -> None:
        if len(left) == len(wanted):
            reason = f"{self.place}: the table, or one of its keys, is throttled"
            self.note(reason)
            raise Busy(reason)

    def asked(self, operation: str, **given: Any) -> dict[str, Any]:
        """Make one request, and raise the errors of the driver as errors of the store."""
        try:
            return self.call_as_is(operation, **given)
        except Driver as error:
            raise self.translated(error) from error

    def translated(self, error: Exception) -> Exception:
        """Return what to raise for an error of the driver."""
        found = translated(error, self.place)
        if isinstance(found, Busy):
            self.note(str(found))
        return found

    def note(self, reason: str) -> None:
        """Note why an attempt was in vain: it is told if no time is left for another one."""
        self._of_thread.busy = reason

    def call_as_is(self, operation: str, **given: Any) -> dict[str, Any]:
        """Make one request, and raise the errors of the driver as they are."""
        client, mine = self._made(), self._of_thread
        if mine.lock is None:
            mine.lock = NonReentrantLock(self.timeout)
        with mine.lock:  # the driver has locks that the same thread must not take twice
            self._check_time(mine)
            sent = self.clock.monotonic()
            try:
                answer: dict[str, Any] = getattr(client, operation)(**given)
            except Driver as error:
                self._hear(getattr(error, "response", {}), sent)
                raise
            self._hear(answer, sent)
            return answer

    def _check_time(self, mine: _OfThread) -> None:
        if mine.last is not None and time.monotonic() > mine.last:
            raise Busy(mine.busy or f"{self.place}: no time is left for another request")

    def _hear(self, answer: Any, sent: float) -> None:
        if date := headers_of(answer).get("date"):
            self.clock.hear(date, sent, self.clock.monotonic())

    def _made(self) -> Any:
        if self._pid != os.getpid():
            _inherited.append(self._client)
            self._begin()
        if self._client is None:
            with self._making:
                if not self._client:  # another thread may have made it
                    self._client = self._new_client()
        return self._client

    def _new_client(self) -> Any:
        config = Config(
            connect_timeout=self.timeout * CONNECT_PART,
            read_timeout=self.timeout * ANSWER_PART,
            retries={"total_max_attempts": 1},
            max_pool_connections=MAX_CONNECTIONS,
            tcp_keepalive=True,
            parameter_validation=False,
        )
        place = self.place
        try:
            core = CoreSession(profile=place.profile)
            core.register_component("data_loader", _descriptions)
            session = Session(region_name=place.region, botocore_session=core)
            return session.client("dynamodb", endpoint_url=place.endpoint_url, config=config)
        except Driver as error:
            raise translated(error, place) from error
        except ValueError as error:  # of an address that is none
            raise StoreUnavailable(f"The store {place} cannot be used: {error}") from error

    def close(self) -> None:
        """Close the connections; the next call makes new ones."""
        if self._pid == os.getpid() and self._client is not None:
            client, self._client = self._client, None
            client.close()
