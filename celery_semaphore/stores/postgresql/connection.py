"""Call a PostgreSQL server in one round trip and bounded time."""

from __future__ import annotations

import logging
import os
import selectors
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors, pq

from ...core.claim import OtherClaims
from ...core.formats import NewerFormat
from ...errors import ResourceBusy, SemaphoreError, StoreFull, StoreUnavailable
from ..durations import OtherLease
from ..encoding import ticket_of, unpacked
from .names import original

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.pq.abc import PGconn, PGresult

Field = str | int | float | bytes | Sequence[str] | Sequence[int | None] | None


class Composite(tuple[Field, ...]):
    """The fields of one value of a composite type, in the order of the type."""

    __slots__ = ()


Parameter = Field | Composite
Row = list[Any]

# Invalid data, and limits of the program such as the size of an index row. These are no outages: the server would
# refuse the same call for ever.
_FINAL = ("22", "54")
# Failures of one resource's rows: a broken constraint, an overflow, a damaged page, a call that takes too long.
_OF_ONE = (*_FINAL, "21", "23", "40", "55P03", "57014", "P0", "XX")
# Errors while the schema is missing, or too old for a call.
_NOT_INSTALLED = (errors.UndefinedFunction, errors.UndefinedTable, errors.InvalidSchemaName)
NEWER = "CS002"  # the code of v1_check_format
OTHER_LEASE = "CS003"  # the code of v1_check_lease
OTHER_CLAIMS = "CS004"  # the code of v1_check_claims
INSTALL = "celery -A <your app> semaphore install"


logger = logging.getLogger(__name__)


class AnswerTimeout(psycopg.OperationalError):
    """The server did not answer in time."""


class Connection:
    """One connection, for one call at a time.

    Calls use libpq's own interface: psycopg's cursors have no timeout before 3.3, and a server that hangs does not
    apply its own timeouts.
    """

    def __init__(self, parameters: Mapping[str, Any], timeout: float) -> None:
        # Prepare no statements, and set nothing for longer than a transaction: behind a pooler such as PgBouncer
        # the next call may reach another session of the server.
        self._made = psycopg.connect(**parameters, autocommit=True)
        self._libpq: PGconn = self._made.pgconn
        self._pid = os.getpid()
        self._timeout = timeout

    def call(self, function: str, parameters: Sequence[Parameter]) -> list[Row]:
        places = ", ".join(f"${n}" for n in range(1, len(parameters) + 1))
        return self.query(f"SELECT * FROM {function}({places})", parameters)  # noqa: S608 - quoted by SchemaName

    def query(self, text: str, parameters: Sequence[Parameter] = ()) -> list[Row]:
        """Return the rows of one statement, which is its own transaction."""
        raw = [_raw(each) for each in parameters]
        formats = [int(isinstance(each, bytes)) for each in parameters]
        self._libpq.send_query_params(text.encode(), raw, param_formats=formats)
        return self._rows(self._answer())

    def isolated(self, function: str, parameters: Sequence[Parameter]) -> list[Row]:
        """Call in READ COMMITTED where the server has another default; still in one round trip."""
        words = ", ".join(self._literal(each) for each in parameters)
        call = f"SELECT * FROM {function}({words})"  # noqa: S608 - quoted by libpq
        _, rows, _ = self.script(f"BEGIN ISOLATION LEVEL READ COMMITTED; {call}; COMMIT")
        return self._rows([rows])

    def script(self, text: str) -> list[PGresult]:
        """Run several statements at once."""
        self._libpq.send_query(text.encode())
        return self._answer()

    def close(self) -> None:
        if self._pid == os.getpid():  # else the parent's session would end
            self._made.close()

    @property
    def server_version(self) -> int:
        return self._libpq.server_version

    @property
    def address(self) -> str:
        """The server, database and role that this connection reached; no password."""
        name = self._libpq
        host, database, user = (part.decode() for part in (name.host, name.db, name.user))
        return f"{host}:{name.port.decode()}/{database} as {user}"

    def _answer(self) -> list[PGresult]:
        until = time.monotonic() + self._timeout
        while self._libpq.flush():
            self._wait(selectors.EVENT_READ | selectors.EVENT_WRITE, until)
            self._libpq.consume_input()
        results = []
        while True:
            while self._libpq.is_busy():
                self._wait(selectors.EVENT_READ, until)
                self._libpq.consume_input()
            result = self._libpq.get_result()
            if result is None:
                break
            results.append(result)
        for result in results:
            if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
                raise psycopg.errors.error_from_result(result)
        return results

    def _wait(self, events: int, until: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._libpq.socket, events)
            if not selector.select(max(0.0, until - time.monotonic())):
                msg = f"no answer within {self._timeout:g} s"
                raise AnswerTimeout(msg)

    @staticmethod
    def _rows(results: list[PGresult]) -> list[Row]:
        (result,) = results
        columns = range(result.nfields)
        return [
            [None if (raw := result.get_value(n, m)) is None else raw.decode() for m in columns]
            for n in range(result.ntuples)
        ]

    def _literal(self, parameter: Parameter) -> str:
        if parameter is None:
            return "NULL"
        return pq.Escaping(self._libpq).escape_literal(_text(parameter).encode()).decode()


def _raw(parameter: Parameter) -> bytes | None:
    """Return a parameter in the server's text format; bytes as they are."""
    if parameter is None or isinstance(parameter, bytes):
        return parameter
    return _text(parameter).encode()


def _text(parameter: Parameter) -> str:
    """Return a parameter in the server's text format; an empty text for null."""
    if isinstance(parameter, str):
        return parameter
    if parameter is None or isinstance(parameter, (int, float)):
        return "" if parameter is None else str(parameter)
    if isinstance(parameter, bytes):
        return "\\x" + parameter.hex()
    if isinstance(parameter, Composite):
        return "(" + ",".join(map(_quoted, parameter)) + ")"
    return "{" + ",".join("NULL" if part is None else _quoted(part) for part in parameter) + "}"


def _quoted(part: Field) -> str:
    """Return a part of an array or a composite value; quoted, but for numbers and null."""
    text = _text(part)
    if part is None or isinstance(part, (int, float)):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of the driver into the library's own; none of them shows a password."""
    try:
        yield
    except psycopg.Error as error:
        if (error.sqlstate or "").startswith(_FINAL):
            msg = f"The store cannot take what it was given: {error.diag.message_primary}"
            raise SemaphoreError(msg) from error
        reason = error.diag.message_primary or str(error).strip() or type(error).__name__
        if error.sqlstate == NEWER:
            raise NewerFormat("the store", int(reason)) from error
        if error.sqlstate == OTHER_CLAIMS:
            ticket = ticket_of(original(error.diag.message_detail or ""))
            raise OtherClaims(ticket, unpacked(reason)) from error
        if error.sqlstate == OTHER_LEASE:
            lease, take_up = reason.split()
            raise OtherLease(int(lease), int(take_up)) from error
        if isinstance(error, _NOT_INSTALLED):
            reason += f"; run `{INSTALL}`, or in a Django project its migrations"
        what = "refused the call" if error.sqlstate else "did not answer"
        msg = f"The store {what}: {reason}"
        raise _unavailable(error)(msg, reason) from error


def _unavailable(error: psycopg.Error) -> type[StoreUnavailable]:
    if isinstance(error, errors.LockNotAvailable):
        return ResourceBusy
    return StoreFull if isinstance(error, errors.DiskFull) else StoreUnavailable


def is_one_resources(error: SemaphoreError) -> bool:
    """Return whether only this call's resources failed, so that a call on others may succeed."""
    state = getattr(error.__cause__, "sqlstate", None) or ""
    return state.startswith(_OF_ONE)


def took_too_long(error: SemaphoreError) -> bool:
    """Return whether the server cut the call off after its ``statement_timeout``."""
    return isinstance(error.__cause__, errors.QueryCanceled)


@contextmanager
def passed_over_if_busy() -> Iterator[None]:
    """Skip resources that another call has locked: a later call tries them again."""
    try:
        yield
    except ResourceBusy as error:
        logger.info("skipped locked resources for now: %s", error.reason)
