"""Encode the names of resources in the store, and render the key of a call from a template."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any
from urllib.parse import quote, unquote

from ..errors import ConfigurationError

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


class NoneInKey(ValueError):
    """A part of a key is None, which is nearly always a mistake: all such calls would share one key."""


@dataclass(frozen=True)
class KeyTemplate:
    """A format string over a call's arguments by name: ``"{tenant_id}"``, ``"{order.region}:{day}"``."""

    text: str

    def names(self) -> set[str]:
        """Return the names of the arguments it needs; raise ``ConfigurationError`` for a template without any."""
        try:
            fields = [field for _, field, _, _ in Formatter().parse(self.text) if field is not None]
        except ValueError as error:
            msg = f"key={self.text!r} is no format string: {error}. Double a brace that is meant as one."
            raise ConfigurationError(msg) from error
        names = {field.partition(".")[0].partition("[")[0] for field in fields}
        unnamed = sorted(name for name in names if not name.isidentifier())
        if unnamed or not names:
            msg = (
                f"key={self.text!r} must name the task's arguments, as in key='{{tenant_id}}'; for one"
                " resource shared by all calls leave key out."
            )
            raise ConfigurationError(msg)
        return names

    def render(self, arguments: Mapping[str, Any]) -> str:
        """Return the key of one call; raise ``KeyError``, ``AttributeError`` … if the call lacks a part.

        Raise ``NoneInKey`` if a part is None, unless the template has a conversion for it.
        """
        for _, field, _, conversion in Formatter().parse(self.text):
            if field is not None and conversion is None:
                value, _ = Formatter().get_field(field, (), arguments)
                if value is None:
                    raise NoneInKey(field)
        return Formatter().vformat(self.text, (), arguments)

    def lacking(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the first part that the call lacks, such as ``order[region]``; None if it has them all."""
        for _, field, _, _ in Formatter().parse(self.text):
            try:
                if field is not None:
                    Formatter().get_field(field, (), arguments)
            except Exception:  # noqa: BLE001 - an attribute of the user's may raise anything
                return field
        return None
