"""How the tables and functions get into a database, and who may use them."""

import re
import threading
from importlib.resources import files
from typing import Any

import pytest

from celery_semaphore import stores
from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import ConfigurationError, SemaphoreError, StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.postgresql.link import Link
from celery_semaphore.stores.postgresql.schema import VERSION, SchemaName, install
from tests.stores.conftest import PARK, claim, refusal_of
from tests.support.postgres import PostgresServer
from tests.support.rights import documented_grants

from .conftest import OpenAt

GRANTS = [grant.replace("TO shop", "TO worker") for grant in documented_grants()]


def link(url: str) -> Link:
    return Link({"conninfo": url}, 5.0)


def test_it_is_installed_once(server: PostgresServer, database: str, open_at: OpenAt) -> None:
    url = server.database(database)
    assert install(link(url), SchemaName()) == list(range(1, VERSION + 1))
    assert install(link(url), SchemaName()) == []
    store = open_at(url)
    assert store.check() == []
    assert isinstance(store.acquire(claim(), "a"), Permit)


def test_several_install_at_once(server: PostgresServer, database: str) -> None:
    done: list[Any] = []
    start = threading.Barrier(8)

    def run() -> None:
        start.wait()
        try:
            done.append(install(link(server.database(database)), SchemaName()))
        except SemaphoreError as error:
            done.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [[]] * 7 + [[1]]


def test_the_script_does_the_same(server: PostgresServer, database: str, open_at: OpenAt) -> None:
    server.run(SchemaName().script(), database=database)
    assert open_at(server.database(database)).check() == []


@pytest.mark.parametrize(
    "place", [SchemaName("My-schema", "x_"), SchemaName("public", "sem_"), SchemaName("public")]
)
def test_it_can_be_elsewhere(
    server: PostgresServer, database: str, open_at: OpenAt, place: SchemaName
) -> None:
    url = server.database(database)
    install(link(url), place)
    store = open_at(url, place=place)
    assert store.check() == []
    assert isinstance(store.acquire(claim(), "a"), Permit)
    names = server.run(
        "SELECT DISTINCT schemaname, tablename FROM pg_tables"
        " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')",
        database=database,
    )
    assert {schema for schema, _ in names} == {place.schema}
    assert all(name.startswith(place.prefix) for _, name in names)


def test_two_places_in_one_database_share_nothing(
    server: PostgresServer, database: str, open_at: OpenAt
) -> None:
    url = server.database(database)
    for place in (SchemaName(), SchemaName("celery_semaphore", "other_")):
        install(link(url), place)
        assert isinstance(open_at(url, place=place).acquire(claim(), "a"), Permit)


@pytest.mark.parametrize("schema", ["", "a b", 'a"b', "a.b", "1a", "x; DROP TABLE y", "x" * 64])
def test_a_place_that_is_no_name(schema: str) -> None:
    with pytest.raises(ConfigurationError, match="schema="):
        SchemaName(schema)


def test_the_options_of_a_url(server: PostgresServer, database: str) -> None:
    url, options = server.database(database), {"schema": "public", "table_prefix": "sem_"}
    install(link(url), SchemaName("public", "sem_"))
    store = store_from_url(url, StoreOptions(transport_options=options))
    assert store.check() == []
    store.close()
    install(link(url), SchemaName("my_app"))
    store = store_from_url(url, StoreOptions(prefix="my-app"))
    assert store.check() == []
    store.close()


def test_nothing_is_installed(server: PostgresServer, database: str, open_at: OpenAt) -> None:
    with pytest.raises(ConfigurationError, match="semaphore install"):
        open_at(server.database(database)).check()
    with pytest.raises(StoreUnavailable, match="semaphore install"):
        open_at(server.database(database)).acquire(claim(), "a")


def test_what_is_installed_is_old(server: PostgresServer, database: str, open_at: OpenAt) -> None:
    url = server.database(database)
    install(link(url), SchemaName())
    server.run("UPDATE celery_semaphore.installed SET version = 0", database=database)
    with pytest.raises(ConfigurationError, match=r"semaphore (install|upgrade)"):
        open_at(url).check()


def test_a_newer_one_is_good(server: PostgresServer, database: str, open_at: OpenAt) -> None:
    """A rolling deployment: the new ones upgrade, the old ones go on."""
    url = server.database(database)
    install(link(url), SchemaName())
    server.run("INSERT INTO celery_semaphore.installed VALUES (1000)", database=database)
    assert open_at(url).check() == []
    assert install(link(url), SchemaName()) == []


@pytest.fixture
def worker(server: PostgresServer, database: str) -> str:
    """The URL of a role that was given nothing; for superusers no rights are checked."""
    server.run(
        "DO $$ BEGIN CREATE ROLE worker LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    install(link(server.database(database)), SchemaName())
    return server.database(database, user="worker")


def test_the_rights_that_suffice(
    server: PostgresServer, database: str, worker: str, open_at: OpenAt
) -> None:
    server.run(*GRANTS, database=database)
    store = open_at(worker)
    assert store.check() == []
    assert install(link(worker), SchemaName()) == []
    assert isinstance(store.acquire(claim(), "a"), Permit)
    store.set_limit(2, "api")
    store.reap()
    assert store.release("a", claim()).outgoing == frozenset()


@pytest.mark.parametrize("granted", [0, 1])
def test_rights_that_do_not(
    server: PostgresServer, database: str, worker: str, open_at: OpenAt, granted: int
) -> None:
    server.run("SELECT", *GRANTS[:granted], database=database)
    with pytest.raises(ConfigurationError, match="GRANT"):
        open_at(worker).check()


@pytest.mark.parametrize(
    "case",
    [
        ("DELETE ON celery_semaphore.waiter FROM worker", "DELETE on waiter;"),
        ("SELECT ON celery_semaphore.installed FROM worker", "installed"),
        (
            "INSERT, UPDATE ON celery_semaphore.epoch FROM worker",
            "INSERT on epoch, UPDATE on epoch",
        ),
        ("EXECUTE ON FUNCTION celery_semaphore.v1_now FROM PUBLIC", "EXECUTE on v1_now;"),
        ("EXECUTE ON ALL FUNCTIONS IN SCHEMA celery_semaphore FROM PUBLIC", " more; GRANT"),
    ],
)
def test_a_right_that_was_taken_is_named(
    server: PostgresServer, database: str, worker: str, open_at: OpenAt, case: tuple[str, str]
) -> None:
    taken, named = case
    server.run(*GRANTS, f"REVOKE {taken}", database=database)
    with pytest.raises(ConfigurationError, match=f"lacks a right: .*{named}"):
        open_at(worker).check()


def test_tables_of_others_need_no_rights(
    server: PostgresServer, database: str, worker: str, open_at: OpenAt
) -> None:
    """Nor do we write which versions are installed."""
    other = "CREATE TABLE celery_semaphore.theirs (id int)"
    revoked = "REVOKE INSERT, UPDATE, DELETE ON celery_semaphore.installed FROM worker"
    server.run(*GRANTS, other, revoked, database=database)
    assert open_at(worker).check() == []


def test_a_role_that_may_create_nothing(server: PostgresServer, database: str, worker: str) -> None:
    with pytest.raises(ConfigurationError, match="CREATE"):
        install(link(worker), SchemaName("elsewhere"))


@pytest.fixture
def others(server: PostgresServer, database: str) -> PostgresServer:
    """Another role of the database may create functions in ``public``, as all may up to PostgreSQL 14.

    It makes some that fit our calls better than the server's own, and note as which role they were run.
    """
    server.run(
        "CREATE TABLE public.ran_as (role text)",
        "GRANT INSERT ON public.ran_as TO PUBLIC",
        database=database,
    )
    for name, given, gives in HIJACKED:
        arguments = "$1, $2" if "," in given else "$1"
        note = "INSERT INTO public.ran_as VALUES (current_user)"
        body = f"BEGIN {note}; RETURN pg_catalog.{name}({arguments}); END"
        server.run(
            f"CREATE FUNCTION public.{name}({given}) RETURNS {gives} LANGUAGE plpgsql AS $${body}$$",
            database=database,
        )
    return server


HIJACKED = [
    ("cardinality", "text[]", "int"),
    ("hashtextextended", "text, int", "bigint"),
    ("jsonb_array_elements_text", "text", "text"),
    ("lpad", "text, int", "text"),
]


def test_no_function_of_another_role_is_run(
    others: PostgresServer, database: str, open_at: OpenAt
) -> None:
    """It would do whatever our role may (CVE-2018-1058)."""
    url = others.database(database)
    install(link(url), SchemaName())
    store, both = open_at(url), claim() + claim(of="disk")
    permit = store.acquire(both, "a")
    assert isinstance(permit, Permit)
    store.renew([permit])
    ticket = refusal_of(store.acquire(both, "b", PARK)).ticket
    assert ticket
    store.attach(ticket, both, b"b", name="b")
    store.ask("s")
    store.sleep("s")
    store.promote([ticket], "api")
    store.sent(store.take(store.release("a", both).outgoing))
    store.end(["b"])
    store.set_limit(2, "api")
    store.reap()
    assert [each.resource for each in store.snapshots(["api", "disk"])] == ["api", "disk"]
    assert others.run("SELECT * FROM public.ran_as", database=database) == []


def test_each_function_that_is_called_names_its_search_path(
    server: PostgresServer, database: str
) -> None:
    install(link(server.database(database)), SchemaName())
    parts = ("store", "renewals", "sessions", "runner")
    here = files(stores) / "postgresql"
    source = "".join((here / f"{part}.py").read_text("utf-8") for part in parts)
    words = {f"v{VERSION}_{word}" for word in re.findall(r'"(\w+)"', source)}
    functions = server.run(
        "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = 'celery_semaphore'::regnamespace",
        database=database,
    )
    called = {name: settings or [] for name, settings in functions if name in words}
    assert {"v1_acquire", "v1_renew", "v1_release", "v1_ask", "v1_end"} <= set(called)
    assert all("search_path=pg_catalog, pg_temp" in settings for settings in called.values())
