"""Schema: a migration's operation that puts the store's tables and functions into the project's database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.migrations.operations.base import Operation

from ..errors import ConfigurationError
from ..settings import Settings
from .project import celery_app

if TYPE_CHECKING:
    from ..stores.postgresql.schema import SchemaName


class InstallSchema(Operation):  # type: ignore[misc]
    """Install one version, where ``CELERY_SEMAPHORE_URL`` is ``django://`` and this database.

    Elsewhere it does nothing. Undone, it leaves what is there: waiting tasks may lie in it.
    """

    reversible = True
    reduces_to_sql = True

    def __init__(self, version: int) -> None:
        self.version = version

    def state_forwards(self, app_label: str, state: Any) -> None:
        """No model changes."""

    def database_forwards(self, app_label: str, editor: Any, before: Any, after: Any) -> None:
        place = _place(editor.connection.alias)
        if place is None:
            return
        # A worker's or a command's `install` may run at this moment: as among those, the second one waits.
        lock = f"SELECT pg_advisory_xact_lock(hashtextextended('{place.named('')}', 0))"
        if editor.collect_sql:
            create = f'CREATE SCHEMA IF NOT EXISTS "{place.schema}"'
            for sql in (lock, create, place.sql(self.version)):
                editor.execute(sql, None)
            return
        with editor.connection.cursor() as cursor:
            _see_what_others_commit(cursor)
            cursor.execute(lock)
            if not _there(cursor, "to_regnamespace", f'"{place.schema}"'):
                editor.execute(f'CREATE SCHEMA "{place.schema}"', None)
            if _installed(cursor, place) < self.version:
                editor.execute(place.sql(self.version), None)

    def database_backwards(self, app_label: str, editor: Any, before: Any, after: Any) -> None:
        """Nothing."""

    def describe(self) -> str:
        return f"Install version {self.version} of the semaphores' schema"


def _place(alias: str) -> SchemaName | None:
    """Where the schema belongs in this database; None if permits are kept elsewhere."""
    try:
        settings = Settings.from_app(celery_app())
        if not settings.url.startswith("django://"):
            return None
        from ..stores.django import alias_of, schema_of  # noqa: PLC0415 - needs psycopg

        if alias_of(settings.url) != alias:
            return None
    except ConfigurationError:  # the system checks say it
        return None
    return schema_of(settings.prefix, settings.transport_options)


def _see_what_others_commit(cursor: Any) -> None:
    """Also where the project's isolation level is a stricter one, by which all is as it was at the first query."""
    cursor.execute("SHOW transaction_isolation")
    if cursor.fetchone()[0] != "read committed":
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")


def _installed(cursor: Any, place: SchemaName) -> int:
    """The newest version that is installed; 0 for none."""
    table = place.named("installed")
    if not _there(cursor, "to_regclass", table):
        return 0
    cursor.execute(f"SELECT coalesce(max(version), 0) FROM {table}")  # noqa: S608 - checked and quoted
    return int(cursor.fetchone()[0])


def _there(cursor: Any, look_up: str, name: str) -> bool:
    cursor.execute(f"SELECT {look_up}(%s) IS NOT NULL", [name])
    return bool(cursor.fetchone()[0])
