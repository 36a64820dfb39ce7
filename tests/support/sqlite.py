"""Stores in a file, without a Django project."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql

from celery_semaphore.core.store import Store
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.sql.mysql import Mysql
from celery_semaphore.stores.sql.sqlite import Sqlite
from celery_semaphore.stores.sql.store import SqlStore

from .dynamodb import REGION

SCHEME = "sqlite://"


def new_file(folder: Path, *, mode: str = "wal") -> Path:
    """Make a database without tables; its journal mode is kept in the file."""
    path = folder / "permits.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.close()
    return path


def sqlite_store(path: Path | str, **options: Any) -> SqlStore:
    store = SqlStore(Sqlite({"database": str(path)}), StoreOptions(**options))
    store.install()
    return store


def opened(url: str, options: StoreOptions) -> Store:
    """Open a store by its URL; tests have one for a file and for MariaDB, too."""
    if url.startswith(SCHEME):
        return SqlStore(Sqlite({"database": url.removeprefix(SCHEME)}), options)
    if url.startswith("mysql://"):
        found = urlsplit(url)
        own = {"host": found.hostname, "port": found.port, "user": found.username}
        return SqlStore(Mysql(pymysql, own | {"database": found.path[1:]}), options)
    if url.startswith("emulator://"):
        found = urlsplit(url)
        given = {"endpoint_url": f"http://{found.netloc}"}
        # Ten clients of one emulator are slower than its calls may be by default.
        return store_from_url(
            f"dynamodb://{REGION}{found.path}",
            replace(options, timeout=20.0, transport_options=given),
        )
    return store_from_url(url, options)
