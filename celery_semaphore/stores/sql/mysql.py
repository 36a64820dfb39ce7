"""MySQL and MariaDB, by the driver that Django uses: mysqlclient, or PyMySQL in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ...core.durability import Safety
from ...errors import ConfigurationError, StoreFull, StoreUnavailable
from ..documents.documents import Busy
from .dialects import MAKE_TABLE, Kept, NoTable, filled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Seconds for the lock of another transaction, which is short; the shortest that a server takes.
LOCK_TIMEOUT_S = 1
# After so many seconds the server closes a connection without a call: that of a host that is gone may have locks.
IDLE_TIMEOUT_S = 20
_LOCKED = frozenset({1205, 1213})  # a lock for too long, a deadlock
_LOST = frozenset(
    {2006, 2013, 2055, 4031}
)  # the server has closed the connection, or did not answer
_FULL = frozenset({1021, 1114, 1041})
_NO_TABLE = 1146
_DENIED = frozenset({1044, 1045, 1049, 1142, 1143})  # a user, a password, a database, a right
_TOO_LARGE = frozenset({1153})
# A connection begins with these: its own names for the day, and no lock of a row that is not there.
_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    f"SET SESSION wait_timeout = {IDLE_TIMEOUT_S}",
    f"SET SESSION innodb_lock_wait_timeout = {LOCK_TIMEOUT_S}",
)


class Mysql:
    """A MySQL or MariaDB server; ``driver`` is the module ``MySQLdb``."""

    warnings: Sequence[str] = ()
    one_writer = False
    closes_before_fork = False
    alone_after = 1  # a commit that is in vain waits for the locks of others, too
    clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    begin = "START TRANSACTION"
    after_table: Sequence[str] = ()
    _words: ClassVar[dict[str, str]] = {
        "text": "VARCHAR(700) CHARACTER SET ascii COLLATE ascii_bin",
        "blob": "LONGBLOB",
        "indexes": ",\n    KEY {table}_due (due),\n    KEY {table}_expires (expires)",
        "options": " ENGINE = InnoDB",
        "until_commit": " LOCK IN SHARE MODE",
        "insert_or_ignore": "INSERT IGNORE",
        "or_replace": "ON DUPLICATE KEY UPDATE version = VALUES(version), due = VALUES(due),"
        " expires = VALUES(expires), body = VALUES(body)",
        "delete_expired": "DELETE FROM {table} WHERE expires <= ? LIMIT ?",
    }

    def __init__(self, driver: Any, parameters: Mapping[str, Any]) -> None:
        self._driver, self._parameters = driver, parameters
        self.errors: type[Exception] = driver.Error
        host = parameters.get("unix_socket") or parameters.get("host") or "localhost"
        database = parameters.get("database") or parameters.get("db")
        self.place = f"{host}, database {database}"

    def statement(self, sql: str, table: str) -> str:
        return filled(sql, table, self._words).replace("?", "%s")

    def connect(self, timeout: float) -> Any:
        whole = max(1, round(timeout))  # seconds; the drivers take no parts of one
        own = {"connect_timeout": whole, "read_timeout": whole, "write_timeout": whole}
        connection = self._driver.connect(**{**own, **self._parameters, "autocommit": True})
        for sql in _SESSION:
            connection.cursor().execute(sql)
        return connection

    def prepare(self, connection: Any, *, keeps_message: bool) -> None:
        """Do nothing: whether the server flushes its log is its own setting."""

    def kept(self, connection: Any) -> Kept:
        cursor = connection.cursor()
        cursor.execute("SELECT VERSION(), @@innodb_flush_log_at_trx_commit")
        ((version, flushes),) = cursor.fetchall()
        server = version.partition("-")[0]
        server = f"MariaDB {server}" if "MariaDB" in version else f"MySQL {server}"
        if int(flushes) == 1:
            return Kept(server, Safety.COMMITTED, "it commits them to its disk")
        why = f"its innodb_flush_log_at_trx_commit is {flushes}"
        return Kept(server, Safety.LOGGED, why)

    def translated(self, error: Exception) -> Exception:
        number, said = self._number(error), str(error)
        if number in _LOCKED or self.is_lost(error):
            return Busy(f"{self.place}: {said}")
        if number == _NO_TABLE:
            return NoTable(f"The store {self.place}: {said}; {MAKE_TABLE}", said)
        msg = f"The store {self.place} cannot be used: {said}"
        if number in _DENIED:
            return Denied(msg, said)
        full = number in _FULL or number in _TOO_LARGE
        return StoreFull(msg, said) if full else StoreUnavailable(msg, said)

    def is_lost(self, error: Exception) -> bool:
        closed = isinstance(
            error, self._driver.InterfaceError
        )  # by the driver, after such an error
        return closed or self._number(error) in _LOST

    def _number(self, error: Exception) -> int:
        return error.args[0] if error.args and isinstance(error.args[0], int) else 0


class Denied(StoreUnavailable):
    """The server refuses this user, or has no such database: a worker that starts says so, and ends."""

    def as_mistake(self, origin: str) -> ConfigurationError:
        return ConfigurationError(f"{origin}: {self.reason}")
