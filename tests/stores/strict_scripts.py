"""The scripts of Redis with a check of their keys, for servers that do not make it."""

from functools import cache
from pathlib import Path

from celery_semaphore.stores.redis import scripts

GIVEN_KEYS = str(Path(__file__).with_name("given_keys"))  # a part of a script


@cache
def strict_scripts() -> dict[str, scripts.Script]:
    """Return each script, which fails where a command names a key that it was not given."""
    return {
        name: scripts.Script(GIVEN_KEYS, *script.parts)
        for name, script in vars(scripts).items()
        if isinstance(script, scripts.Script)
    }
