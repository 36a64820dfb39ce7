"""Define the migration operation that puts what the store needs into the project's database: tables, and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.migrations.operations.base import Operation

from ..errors import ConfigurationError
from ..settings import Settings
from .project import celery_app

if TYPE_CHECKING:
    from ..stores.postgresql.schema import SchemaName


class InstallSchema(Operation):  # type: ignore[misc]
    """Installs one version, if ``CELERY_SEMAPHORE_URL`` is ``django://`` and names this database.

    Elsewhere it does nothing. When it is reversed it leaves the schema, which may hold waiting tasks.
    """

    reversible = True
    reduces_to_sql = True

    def __init__(self, version: int) -> None:
        self.version = version

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change no model."""

    def database_forwards(self, app_label: str, editor: Any, before: Any, after: Any) -> None:
        settings = _settings_of(editor.connection.alias)
        if settings and editor.connection.vendor == "postgresql":
            self._install_schema(editor, settings)
        elif settings:
            _make_table(editor, settings)

    def _install_schema(self, editor: Any, settings: Settings) -> None:
        from ..stores.postgresql.schema import SchemaName  # noqa: PLC0415 - needs psycopg

        place = SchemaName.of(settings.prefix, settings.transport_options)
        # A worker or a command may run `install` at this moment; with the same lock, the second one waits.
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
        """Do nothing: the schema may hold waiting tasks."""

    def describe(self) -> str:
        return f"Install version {self.version} of the semaphores' schema"


def _settings_of(alias: str) -> Settings | None:
    """Return the settings of a store in this database; None if permits are kept elsewhere."""
    try:
        settings = Settings.from_app(celery_app())
        if not settings.url.startswith("django://"):
            return None
        from ..stores.django import alias_of  # noqa: PLC0415 - reads Django's settings

        return settings if alias_of(settings.url) == alias else None
    except ConfigurationError:  # the system checks report it
        return None


def _make_table(editor: Any, settings: Settings) -> None:
    """Make the table of documents, unless a command did: each statement says so itself."""
    from ..stores.django import dialect_of  # noqa: PLC0415 - reads Django's settings
    from ..stores.sql.schema import Table  # noqa: PLC0415 - likewise

    dialect = dialect_of(editor.connection, editor.connection.alias)
    for sql in Table.of(dialect, settings.prefix).script():
        editor.execute(sql, None)


def _see_what_others_commit(cursor: Any) -> None:
    """Read what others commit, even if the project's isolation level is stricter and would hide it."""
    cursor.execute("SHOW transaction_isolation")
    if cursor.fetchone()[0] != "read committed":
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")


def _installed(cursor: Any, place: SchemaName) -> int:
    """Return the newest installed version; 0 if there is none."""
    table = place.named("installed")
    if not _there(cursor, "to_regclass", table):
        return 0
    cursor.execute(f"SELECT coalesce(max(version), 0) FROM {table}")  # noqa: S608 - checked and quoted
    return int(cursor.fetchone()[0])


def _there(cursor: Any, look_up: str, name: str) -> bool:
    cursor.execute(f"SELECT {look_up}(%s) IS NOT NULL", [name])
    return bool(cursor.fetchone()[0])
