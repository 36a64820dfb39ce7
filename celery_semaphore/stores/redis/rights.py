"""Name the commands that the store calls, and refuse a server or a user that forbids one of them."""

from __future__ import annotations

import re
from hashlib import sha1
from typing import Any

import redis
from redis.exceptions import AskError, ClusterDownError, NoPermissionError, TryAgainError

from ...errors import ConfigurationError
from .connection import Word, exchanged, pack
from .errors import passes, said

# The commands of the scripts, in a form that changes nothing while KEY is absent. A server asks for the right to each.
SCRIPTED = (
    "DEL KEY",
    "EXISTS KEY",
    "GET KEY",
    "HDEL KEY field",
    "HEXISTS KEY field",
    "HGET KEY field",
    "HGETALL KEY",
    "HLEN KEY",
    "HMGET KEY field",
    "HSET KEY field value other",  # refused for its number of words, once the right is there
    "HVALS KEY",
    "PERSIST KEY",
    "PEXPIRE KEY 1",
    "SET KEY value XX",
    "TIME",
    "ZADD KEY XX 0 member",
    "ZCARD KEY",
    "ZCOUNT KEY 0 0",
    "ZLEXCOUNT KEY - +",
    "ZRANGE KEY 0 0",
    "ZRANGEBYLEX KEY - +",
    "ZRANGEBYSCORE KEY 0 0",
    "ZREM KEY member",
    "ZREMRANGEBYSCORE KEY 0 0",
    "ZSCORE KEY member",
    "ZUNIONSTORE KEY 1 KEY",
)
# What the client itself sends besides the calls of scripts; INFO is not needed, but see health.py.
DIRECT = ("EVAL", "EVALSHA", "HGET", "INFO", "SELECT", "ZSCAN")

_CALL = "return redis.pcall(unpack(ARGV))"
_DIGEST = sha1(_CALL.encode(), usedforsecurity=False).hexdigest()
_FORBIDDEN = re.compile(
    r"no permissions to run|can't run this command|^unknown command|Unknown (?:Redis )?command"
)
_OF_KEYS = re.compile(r"access (?:a key|one of the keys)")
_MOVED = (AskError, ClusterDownError, TryAgainError)  # errors of a Cluster


def commands() -> list[str]:
    """Return the names of all commands that a user of the store needs."""
    return sorted({*DIRECT, *(probe.split()[0] for probe in SCRIPTED)})


def check_rights(connection: Any, key: str) -> None:
    """Raise ``ConfigurationError`` if the server forbids what the store calls; ``key`` is one that is never written."""
    probes = {probe.split()[0]: _script(("EVAL", _CALL), key, probe) for probe in SCRIPTED}
    probes["EVALSHA"] = _script(("EVALSHA", _DIGEST), key, "TIME")
    probes["ZSCAN"] = _packed(("ZSCAN", key, 0))
    alone = _script(("EVAL", "return 1"), key)
    first, *answers = exchanged(connection, [alone, *probes.values()])
    _check_scripts(first, key)
    if missing := [name for name, said in zip(probes, answers, strict=True) if _forbidden(said)]:
        rights = " ".join(f"+{name.lower()}" for name in missing)
        msg = (
            f"The store forbids {', '.join(missing)}, which this library calls: allow it"
            f" (ACL SETUSER <user> {rights}), or name another server in semaphore_url."
        )
        raise ConfigurationError(msg)


def _script(head: tuple[str, str], key: str, probe: str = "") -> bytes:
    words = [key if word == "KEY" else word for word in probe.split()]
    return _packed((*head, 1, key, *words))


def _packed(words: tuple[Word, ...]) -> bytes:
    return b"*%d\r\n%b" % (len(words), pack(words))


def _check_scripts(answer: Any, key: str) -> None:
    """Raise if the server runs no script of this user at all, or none with a key of this prefix."""
    if not isinstance(answer, redis.ResponseError):
        return
    reason = said(answer)
    refused = isinstance(answer, NoPermissionError)
    if isinstance(answer, _MOVED) or (passes(reason) and not refused):
        raise answer
    if refused and _OF_KEYS.search(reason):
        raise ConfigurationError(denied(key, reason))
    msg = (
        f"The store forbids EVAL ({reason}). It cannot keep permits, because each call is one script, which counts and admits"
        " in one step. Allow it (ACL SETUSER <user> +eval +evalsha), or name a server in semaphore_url that runs"
        " scripts."
    )
    raise ConfigurationError(msg)


def denied(key: str, reason: str) -> str:
    """Explain that the user lacks a right; ``key`` belongs to the prefix of the store."""
    pattern = key[: key.index("}") + 2] + "*"
    return (
        f"The user of semaphore_url lacks a right ({reason}). The rights that suffice are: ACL SETUSER <user>"
        f" ~{pattern} {' '.join(f'+{name.lower()}' for name in commands())}"
    )


def _forbidden(answer: Any) -> bool:
    return isinstance(answer, redis.ResponseError) and bool(_FORBIDDEN.search(said(answer)))
