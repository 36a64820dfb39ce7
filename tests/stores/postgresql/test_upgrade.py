"""A rolling deployment: the new ones have upgraded the schema, and the old ones still call the functions of before."""

import re
import shutil
from importlib.resources import files
from pathlib import Path
from uuid import uuid4

import pytest

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.stores.postgresql import PostgresStore, schema
from celery_semaphore.stores.postgresql.link import Link
from celery_semaphore.stores.postgresql.schema import SchemaName, install
from tests.stores.conftest import PARK, claim, permit_of, refusal_of
from tests.support.postgres import PostgresServer

from .conftest import OpenAt

PACKAGE = "celery_semaphore.stores.postgresql"
# What a later version may do: columns that the functions of before do not know.
ADDED = "".join(
    f"ALTER TABLE celery_semaphore.{table} ADD COLUMN made_by text NOT NULL DEFAULT 'before';\n"
    for table in ("resource", "permit", "released", "waiter", "message", "decision", "epoch")
)


class Before(SchemaName):
    """What the processes call that were not replaced yet."""

    def function(self, operation: str) -> str:
        return self.named(f"v1_{operation}")


@pytest.fixture
def upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library whose version 2 adds columns, and writes one of them."""
    made_up = tmp_path / "postgresql"
    shutil.copytree(Path(str(files(PACKAGE))), made_up)
    (made_up / "v2").mkdir()
    for part in (made_up / "v1").iterdir():
        (made_up / "v2" / part.name).write_text(re.sub(r"\bv1_", "v2_", part.read_text()))
    first, permits = made_up / "v2" / "epoch.sql", made_up / "v2" / "permits.sql"
    first.write_text(ADDED + first.read_text())
    text, instead = "SET holder = _holder, ", "SET made_by = 'after', holder = _holder, "
    assert permits.read_text().count(text) == 1
    permits.write_text(permits.read_text().replace(text, instead))
    monkeypatch.setattr(schema, "VERSION", 2)
    monkeypatch.setattr(schema, "files", {PACKAGE: made_up}.__getitem__)


@pytest.fixture
def old(server: PostgresServer, database: str, open_at: OpenAt) -> PostgresStore:
    """It has made its plans, of each kind, before the upgrade."""
    url = server.database(database)
    install(Link({"conninfo": url}, 5.0), SchemaName())
    store = open_at(url, place=Before())
    use(store, store)
    return store


@pytest.fixture
def new(
    server: PostgresServer, database: str, open_at: OpenAt, old: PostgresStore, upgraded: None
) -> PostgresStore:
    url = server.database(database)
    assert install(Link({"conninfo": url}, 5.0), SchemaName()) == [2]
    assert install(Link({"conninfo": url}, 5.0), SchemaName()) == []
    return open_at(url)


def use(one: PostgresStore, other: PostgresStore) -> None:
    """A wait, and what was waited for, from one store's hands into the other's."""
    a, b, c, d = (f"{uuid4()}" for _ in "abcd")
    permit = permit_of(one.acquire(claim(), a))
    assert other.renew([permit]) == {a: Renewal.OK}
    ticket = parked(other, b)
    assert one.snapshot("api").waiting == 1
    (grant,) = other.take(one.release(a, claim()).outgoing)
    one.sent([grant])
    assert (grant.ticket, grant.payload) == (ticket, b"parked")
    assert refusal_of(other.acquire(claim(), a)).reason is Reason.RELEASED
    assert refusal_of(other.acquire(claim(), c)).occupied == 1
    other.set_limit(2, "api")
    assert permit_of(one.acquire(claim(), d)).token > grant.token > permit.token
    one.set_limit(None, "api")
    for holder in (ticket, d):
        other.release(holder, claim())
    assert list(one.resources()) == []


def parked(store: PostgresStore, holder: str) -> Ticket:
    ticket = refusal_of(store.acquire(claim(), holder, PARK)).ticket
    assert ticket
    assert not store.attach(ticket, claim(), b"parked")
    return ticket


def test_the_old_and_the_new_share_the_permits(old: PostgresStore, new: PostgresStore) -> None:
    use(old, new)
    use(new, old)


def test_the_limit_is_that_of_both(
    server: PostgresServer, database: str, old: PostgresStore, new: PostgresStore
) -> None:
    old.set_limit(3, "api")  # the fixture has declared a lower one
    for n in range(3):
        permit_of((new, old)[n % 2].acquire(claim(3), f"h{n}"))
    for store in (old, new):
        assert refusal_of(store.acquire(claim(3), "more")).occupied == 3
    made_by = "SELECT made_by FROM celery_semaphore.permit WHERE holder = 'h0'"
    assert server.run(made_by, database=database) == [("after",)]


def test_what_was_there_before_goes_on(old: PostgresStore, request: pytest.FixtureRequest) -> None:
    permit = permit_of(old.acquire(claim(), "a"))
    ticket = parked(old, "b")
    new: PostgresStore = request.getfixturevalue("new")
    assert new.check() == []
    assert new.renew([permit]) == old.renew([permit]) == {"a": Renewal.OK}
    (grant,) = new.take(new.release("a", claim()).outgoing)
    assert (grant.ticket, grant.payload) == (ticket, b"parked")
    assert old.renew([permit]) == {"a": Renewal.LOST}
