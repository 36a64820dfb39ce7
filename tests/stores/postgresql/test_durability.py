"""How safe parked messages are in PostgreSQL, as it says of itself."""

from __future__ import annotations

import pytest

from celery_semaphore.core.durability import Safety
from tests.support.postgres import PostgresServer
from tests.support.rights import USER, as_role

from .conftest import OpenAt


def test_it_commits(server: PostgresServer, open_at: OpenAt) -> None:
    found = open_at(server.url).durability(10)
    assert found.safety is Safety.COMMITTED
    assert found.place.startswith(f"PostgreSQL at 127.0.0.1:{server.port}/postgres")


@pytest.mark.parametrize(
    ("commit", "safety"),
    [("off", Safety.UNTOLD), ("local", Safety.COMMITTED), ("remote_apply", Safety.COMMITTED)],
)
def test_as_the_role_commits_that_the_store_connects_with(
    server: PostgresServer, open_at: OpenAt, commit: str, safety: Safety
) -> None:
    """Others of the same server may have another setting."""
    url = as_role(server)
    server.run(f"ALTER ROLE {USER} SET synchronous_commit = {commit}")
    try:
        found = open_at(url).durability(10)
        assert found.safety is safety
        assert (found.why == "its synchronous_commit is off") is (commit == "off")
        assert open_at(server.url).durability(10).safety is Safety.COMMITTED
    finally:
        server.run(f"ALTER ROLE {USER} RESET synchronous_commit")
