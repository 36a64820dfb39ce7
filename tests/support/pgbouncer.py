"""PgBouncer, before a PostgreSQL server of the tests' own."""

from pathlib import Path
from typing import Self

from .postgres import PostgresServer, as_somebody
from .process import Process, listening
from .server import Server


class PgBouncer(Server):
    """A pooler in transaction mode before a server: a client's next transaction may be in another session."""

    name = command = "pgbouncer"
    missing = "no PgBouncer: apt-get install pgbouncer"

    def __init__(self, server: PostgresServer, **options: str) -> None:
        super().__init__()
        self.server = server
        self.options = {"pool_mode": "transaction", "default_pool_size": "3"} | options

    def start(self) -> Self:
        binary = self.binary()
        assert binary, self.why_missing()
        given = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "any",
        } | self.options
        lines = [f"{name} = {value}" for name, value in given.items()]
        behind = f"* = host=127.0.0.1 port={self.server.port} user=postgres"
        file = self.directory / "pgbouncer.ini"
        file.write_text("\n".join(["[databases]", behind, "[pgbouncer]", *lines, ""]))
        self.directory.chmod(0o755)
        command: list[str | Path] = [*as_somebody(), binary, file]
        self.process = Process(f"pgbouncer-{self.port}", command).start()
        self.process.wait_until(lambda: listening(self.port), 10, "a connection")
        return self

    @property
    def url(self) -> str:
        return self.server.database("postgres", port=self.port)
