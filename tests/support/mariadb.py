"""A MariaDB of the tests' own, without users."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import uuid4

import pymysql

from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.sql.mysql import Mysql
from celery_semaphore.stores.sql.store import SqlStore

from .process import Process, wait_until
from .server import Server

BINARY = "TESTS_MARIADB"  # the path of another mariadbd, for instance of an unpacked package


class MariaServer(Server):
    """MariaDB, as Debian packages it; it flushes each commit."""

    name = "mariadb"
    command = "mariadbd"
    missing: ClassVar[str] = "no mariadbd in PATH: apt-get install mariadb-server-core"

    @classmethod
    def binary(cls) -> Path | None:
        return Path(os.environ[BINARY]) if BINARY in os.environ else super().binary()

    def start(self) -> Self:
        binary = self.binary()
        assert binary, self.why_missing()
        data, share = self.directory / "data", binary.parents[1] / "share/mysql"
        data.mkdir(exist_ok=True)
        shutil.chown(data, os.getuid())
        options = {
            "datadir": data,
            "port": self.port,
            "bind-address": "127.0.0.1",
            "socket": self.directory / "s",
            "lc-messages-dir": share,
            "character-sets-dir": share / "charsets",
            "innodb-buffer-pool-size": "16M",
            "innodb-log-file-size": "8M",
            "pid-file": self.directory / "pid",
        }
        given = [f"--{name}={value}" for name, value in options.items()]
        own = [
            "--no-defaults",
            "--skip-grant-tables",
            *(["--user=root"] if not os.getuid() else []),
        ]
        self.process = Process(self.name, [str(binary), *own, *given])
        self.process.start()
        self.process.wait_until(self._answers, 60, "MariaDB answers")
        return self

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except pymysql.Error:
            return False
        return True

    def connect(self, **parameters: Any) -> Any:
        given = {"host": "127.0.0.1", "port": self.port, "user": "root", "autocommit": True}
        return pymysql.connect(**given | parameters)

    @contextmanager
    def without_flushes(self) -> Iterator[None]:
        """Flush no commit, but the log once a second."""
        with closing(self.connect()) as connection:
            connection.cursor().execute("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
            yield
            connection.cursor().execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1")

    def new_database(self) -> dict[str, Any]:
        """Make an empty database; return the driver's parameters."""
        name = f"shop_{uuid4().hex}"
        connection = self.connect()
        connection.cursor().execute(f"CREATE DATABASE {name}")
        connection.close()
        return {"host": "127.0.0.1", "port": self.port, "user": "root", "database": name}

    def store(self, parameters: dict[str, Any], **options: Any) -> SqlStore:
        store = SqlStore(Mysql(pymysql, parameters), StoreOptions(**options))
        wait_until(lambda: store.install() is not None, 10, "the table is made")
        return store
