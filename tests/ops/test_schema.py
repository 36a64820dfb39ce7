"""``celery -A app semaphore install``."""

from __future__ import annotations

import os

import pytest

from tests.support.postgres import PostgresServer

from .conftest import Command

DONE = "Nothing to do: this version is installed.\n"


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
    assert semaphore.says("upgrade") == semaphore.says("install") == DONE
    assert semaphore.says("list")


def test_it_can_be_printed(postgres: PostgresServer, database: str, semaphore: Command) -> None:
    postgres.run(semaphore.says("install", "--sql"), database=database)
    assert semaphore.says("install") == DONE


def test_other_stores_need_nothing(semaphore: Command) -> None:
    said = semaphore("install")
    assert (said.code, said.err) == (1, "Error: The store needs nothing to be installed.\n")
