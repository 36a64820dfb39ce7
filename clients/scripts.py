"""Write down the scripts that a client sends, with the constants and keys that it must have in common with Python."""

from __future__ import annotations

import inspect
import json
from hashlib import sha1
from importlib.resources import files

from celery_semaphore.core.acquisition import ASKS
from celery_semaphore.core.formats import FORMAT
from celery_semaphore.core.lease import BEATS
from celery_semaphore.core.session import EXPECTED
from celery_semaphore.core.ticket import DEFAULT_PRIORITY
from celery_semaphore.stores import redis
from celery_semaphore.stores.encoding import ROUNDS
from celery_semaphore.stores.redis import RedisStore, scripts as python, short_calls
from celery_semaphore.stores.redis.renewals import MANY
from celery_semaphore.stores.redis.runner import COMMON

LONG = ("acquire", "ask", "overdue", "reap", "release", "renew", "renew_many", "snapshot")
SHORT = "short_release"
NAMES = (*LONG, SHORT)
LUA = files(redis) / "lua"
FIRST = "constants"  # the part that precedes those of the files


def script(name: str) -> python.Script:
    found: python.Script = getattr(python, name.upper())
    return found


def digest(source: str) -> str:
    return sha1(source.encode(), usedforsecurity=False).hexdigest()


def parts_of(name: str) -> dict[str, str]:
    """Return the parts of a script, each a file of Lua; or the whole script, if it is not put together from these."""
    one = script(name)
    parts = {FIRST: one.source.partition("\n")[0]}
    parts |= {part: (LUA / f"{part}.lua").read_text("utf-8") for part in one.parts}
    return parts if "\n".join(parts.values()) == one.source else {f"whole {name}": one.source}


def scripts() -> str:
    parts = {name: parts_of(name) for name in NAMES}
    known = {
        "format": FORMAT,
        "constants": {
            "ASKS": ASKS,
            "BEATS": BEATS,
            "DEFAULT_PRIORITY": DEFAULT_PRIORITY,
            "EXPECTED": EXPECTED,
            "MANY": MANY,
            "REAPED": inspect.signature(RedisStore.reap).parameters["limit"].default,
            "ROUNDS": ROUNDS,
        },
        "keys": {
            "common": COMMON,
            "resource": python.PARTS,
            "short_common": short_calls.COMMON,
            "short_resource": short_calls.PARTS,
        },
        "parts": {part: text for each in parts.values() for part, text in each.items()},
        "scripts": {
            name: {"parts": list(parts[name]), "sha1": digest(script(name).source)}
            for name in NAMES
        },
    }
    return json.dumps(known, indent=1, ensure_ascii=False) + "\n"
