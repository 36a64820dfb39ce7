"""Encode the names of resources in the store, and decode them."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote, unquote

MAX_NAME_BYTES = 128  # of an encoded name; longer ones end with a digest
READABLE = 48  # bytes of a long name before its digest
_SHORTENED = re.compile(rf"[\w.%-]{{{READABLE}}}~[0-9a-f]{{64}}", re.ASCII)


def resource_name(semaphore: str, key: str | None) -> str:
    """Return the name of one key of a semaphore: ASCII, and unique for each pair.

    Everything but letters, digits, ``_``, ``.`` and ``-`` is percent-encoded. So ``/`` can only separate, ``~`` can
    only precede a digest, and a semaphore without a key has no ``/``.
    """
    name = _encoded(semaphore)
    return name if key is None else f"{name}/{_encoded(key)}"


def names_of(resource: str) -> tuple[str, str | None]:
    """Return the semaphore and the key of a resource; a long name is returned as its beginning and digest."""
    semaphore, slash, key = resource.partition("/")
    return _decoded(semaphore), _decoded(key) if slash else None


def semaphore_of(resource: str) -> str:
    """Return the name of a resource's whole semaphore, which stands for all its keys."""
    return resource.partition("/")[0]


def all_keys_of(resource: str) -> str:
    """Return the name under which limits are declared for all keys of a resource's semaphore; no resource has it."""
    return f"{semaphore_of(resource)}//"


def any_key_of(resource: str) -> str:
    """Return the name of a key that no task uses: what is in force there is in force at each key without its own."""
    return f"{all_keys_of(resource)}any"


def is_resource_name(text: str) -> bool:
    """Return whether ``resource_name`` could have made this text; another text may decode to the same names."""
    return all(map(_is_encoded, text.split("/", 1)))


def _is_encoded(name: str) -> bool:
    if "~" in name:
        return bool(_SHORTENED.fullmatch(name))
    try:
        return _encoded(_decoded(name)) == name
    except UnicodeDecodeError:
        return False


def _decoded(name: str) -> str:
    # The beginning of a long name may end within a character.
    return unquote(name, errors="replace" if "~" in name else "surrogatepass")


def _encoded(text: str) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    name = quote(raw, safe="").replace("~", "%7E")
    if len(name) <= MAX_NAME_BYTES:
        return name
    return f"{name[:READABLE]}~{hashlib.sha256(raw).hexdigest()}"
