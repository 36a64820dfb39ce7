"""The users that the documentation describes, with no more rights than it gives them."""

import re

from tests.support.postgres import PostgresServer
from tests.support.process import ROOT
from tests.support.servers import RedisServer

USER, PASSWORD = "shop", "s3cret-of-shop"
_ACL = re.compile(r"^ACL SETUSER shop (.+)$", re.MULTILINE)
_GRANT = re.compile(r"-c '(GRANT .+? TO shop)'")


def documented_acl() -> list[str]:
    """Return the words of the line in docs/operate/redis.md."""
    (line,) = _ACL.findall((ROOT / "docs/operate/redis.md").read_text("utf-8"))
    words: list[str] = line.replace(">PASSWORD", f">{PASSWORD}").split()
    return words


def documented_grants() -> list[str]:
    """Return the statements in docs/operate/postgresql.md."""
    found: list[str] = _GRANT.findall((ROOT / "docs/operate/postgresql.md").read_text("utf-8"))
    assert len(found) == 2, found
    return found


def as_user(server: RedisServer, *without: str, database: int = 0) -> str:
    """Give the user these rights, but for the words of ``without``, and return its URL."""
    words = [word for word in documented_acl() if word not in without]
    server.ask_each(["ACL", "SETUSER", USER, *words])
    return f"redis://{USER}:{PASSWORD}@127.0.0.1:{server.port}/{database}"


def as_role(server: PostgresServer) -> str:
    """Make the role, with these rights, and return its URL."""
    if USER not in server.roles:
        server.run(f"CREATE ROLE {USER} LOGIN", *documented_grants())
        server.roles.add(USER)
    return server.database("postgres", user=USER)
