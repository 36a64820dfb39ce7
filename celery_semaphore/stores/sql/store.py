"""Keep permits in a SQL database."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ...core.durability import Durability, Safety
from ...core.facts import StoreFacts
from ...core.formats import format_warnings
from ...errors import ConfigurationError
from ..documents.attempts import repeated
from ..documents.documents import PAYLOAD, STORE, Key
from ..documents.store import DocumentStore
from ..encoding import seconds
from ..engine.codec import decode_store
from ..engine.epoch import Epoch
from ..one_by_one import one_by_one
from ..options import DEFAULTS, StoreOptions
from .dialects import MAKE_TABLE, Kept
from .documents import SqlDocuments
from .link import Link
from .mysql import Denied
from .schema import Table, install, installed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...core.refusal import Answer
    from ...core.store import Acquire, HandedOn, Release
    from ...errors import SemaphoreError
    from .dialects import Dialect

T = TypeVar("T")


class SqlStore(DocumentStore):
    """Keeps permits in one table of a database. ``keeps`` returns whether connections stay open between calls."""

    def __init__(
        self,
        dialect: Dialect,
        options: StoreOptions = DEFAULTS,
        *,
        origin: str = "semaphore_url",
        keeps: Callable[[], bool] = lambda: True,
    ) -> None:
        self._origin, self._dialect = origin, dialect
        self._link = Link(dialect, options.timeout, keeps=keeps)
        self._table = Table.of(dialect, options.prefix)
        self._sql = SqlDocuments(self._link, self._table, options.now)
        super().__init__(self._sql, options)

    def check(self, *, parks: bool = False) -> list[str]:
        try:
            if not self._again(lambda: installed(self._link, self._table)):
                raise ConfigurationError(self._lacks())
        except Denied as error:
            raise error.as_mistake(self._origin) from error
        epoch, kept = self._epoch(), self._kept_by()
        warnings = [*self._dialect.warnings]
        if parks and kept.safety < Safety.COMMITTED:
            warnings.append(
                f"Parked tasks lie in {kept.server}, and {kept.why}: a crash may lose the last ones."
            )
        in_force = (epoch.lease, epoch.take_up) if epoch.lease else None
        return warnings + format_warnings(epoch.format) + self._durations.examine(in_force)

    def _again(self, call: Callable[[], T]) -> T:
        """Make a call again while the database is busy, or its connection is lost."""
        return repeated(lambda _: call(), self._timeout)

    def _kept_by(self) -> Kept:
        def kept() -> Kept:
            with self._link.connection() as connection:
                return self._dialect.kept(connection)

        return self._again(kept)

    def _lacks(self) -> str:
        return f"{self._origin} has no table {self._table.name!r} for semaphores: {MAKE_TABLE}."

    def about(self) -> StoreFacts:
        has_table = bool(self._again(lambda: installed(self._link, self._table)))
        epoch, kept = self._epoch() if has_table else None, self._kept_by()
        return StoreFacts(
            server=kept.server,
            address=f"{self._dialect.place}, table {self._table.name}",
            format=epoch.format if epoch and epoch.lease else None,
            lease=seconds(epoch.lease) if epoch and epoch.lease else None,
            tables=int(has_table),
            role="primary",
            durability=kept.why,
        )

    def durability(self, most: int) -> Durability:
        sql = "SELECT count(*) FROM (SELECT 1 FROM {table} WHERE pk >= ? AND pk < ? LIMIT ?) AS parked"
        # "$" is the character after "#", which ends the kind of a document.
        ((parked,),) = self._again(lambda: self._sql.rows(sql, f"{PAYLOAD}#", f"{PAYLOAD}$", most))
        kept = self._kept_by()
        place = f"{kept.server} at {self._dialect.place}"
        return Durability(place, kept.safety, kept.why, parked=int(parked))

    def _epoch(self) -> Epoch:
        body = self._again(lambda: self._sql.begin([Key(STORE)]).get(Key(STORE)))
        return decode_store(body)[0] if body else Epoch()

    def call_all(
        self, calls: Sequence[Acquire | Release]
    ) -> list[Answer | HandedOn | SemaphoreError]:
        return one_by_one(self, calls)

    def install(self) -> list[int]:
        """Make the table if it is missing; return its version then."""
        return self._again(lambda: install(self._link, self._table))

    def script(self) -> str:
        """Return the script that ``install`` runs."""
        return ";\n".join([*self._table.script(), ""])

    def close(self) -> None:
        self._link.close()
