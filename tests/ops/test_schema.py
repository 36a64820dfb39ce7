"""``celery -A app semaphore install`` and ``upgrade``."""

from __future__ import annotations

import json
import os
from contextlib import closing

import pytest

from celery_semaphore.core.formats import FORMAT
from celery_semaphore.stores import store_from_url
from tests.support.dynamodb import KEYS, REGION, EmulatorServer, new_name
from tests.support.postgres import PostgresServer

from .conftest import Command

DONE = "Nothing to do: it is up to date.\n"
NO_TABLES = "Nothing to do: this store has no tables.\n"
NONE = "Processes that use the store: none.\n"
ONE = f"Processes that use the store: 1 of format {FORMAT}.\n"


@pytest.fixture
def database(postgres: PostgresServer, semaphore: Command, request: pytest.FixtureRequest) -> str:
    """A database that was never used, as the store of the command's app."""
    name = request.node.name
    postgres.run(f'DROP DATABASE IF EXISTS "{name}"')
    semaphore.env |= {"STORE": postgres.add_database(name)}
    return name


def test_a_database_is_made_ready(database: str, semaphore: Command) -> None:
    said = semaphore("list")
    assert (said.code, "semaphore install`" in said.err) == (os.EX_UNAVAILABLE, True)
    assert semaphore.says("install") == "Installed version 1.\n"
    assert semaphore.says("install") == DONE
    assert semaphore.says("upgrade") == DONE + NONE
    assert semaphore.says("list")


def test_it_can_be_printed(postgres: PostgresServer, database: str, semaphore: Command) -> None:
    postgres.run(semaphore.says("install", "--sql"), database=database)
    assert semaphore.says("install") == DONE


def test_an_upgrade_counts_the_processes(
    database: str, postgres: PostgresServer, semaphore: Command
) -> None:
    assert semaphore.says("upgrade") == f"Installed version 1.\n{NONE}"
    reap(semaphore)
    assert semaphore.says("upgrade") == DONE + ONE


def test_an_upgrade_of_a_store_without_tables(semaphore: Command) -> None:
    """Scripts of deployments run it whatever the store is."""
    assert semaphore.says("upgrade") == NO_TABLES + NONE
    reap(semaphore)
    assert semaphore.says("upgrade") == NO_TABLES + ONE
    assert semaphore.says("upgrade", "--sql") == "-- This store has no tables.\n"


def reap(semaphore: Command) -> None:
    """Reap as a worker does."""
    with closing(store_from_url(semaphore.env["STORE"])) as store:
        store.reap()


def test_other_stores_need_nothing(semaphore: Command) -> None:
    assert semaphore.says("install") == NO_TABLES
    assert semaphore.says("install", "--sql") == "-- This store has no tables.\n"


def test_only_a_store_of_documents_is_told_of_a_restore(semaphore: Command) -> None:
    said = semaphore("install", "--restored")
    assert said.code != 0
    assert "for stores that keep documents" in said.err
    assert "--sql" in semaphore("install", "--sql", "--restored").err


@pytest.mark.variants
def test_a_table_of_dynamodb(emulator_server: EmulatorServer, semaphore: Command) -> None:
    options = {"endpoint_url": emulator_server.url}
    semaphore.env |= KEYS | {
        "STORE": f"dynamodb://{REGION}/{new_name()}",
        "CONF": json.dumps({"semaphore_transport_options": options}),
    }
    assert "semaphore install`" in semaphore("list").err
    assert semaphore.says("install", "--sql").startswith("aws dynamodb create-table --region")
    assert semaphore.says("install") == "Installed version 1.\n"
    assert semaphore.says("install") == DONE
    assert "A new epoch has begun" in semaphore.says("install", "--restored")
    assert "DynamoDB" in semaphore.says("check")
    assert semaphore.says("list")
