"""Names: a resource's name in the store, and the template that renders a call's key."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any
from urllib.parse import quote, unquote

from ..errors import ConfigurationError

MAX_NAME_BYTES = 128  # bytes of an encoded name; longer ones are kept by their digest
READABLE = 48  # bytes of a long name that stay readable before its digest
_SHORTENED = re.compile(rf"[\w.%-]{{{READABLE}}}~[0-9a-f]{{64}}", re.ASCII)


def resource_name(semaphore: str, key: str | None) -> str:
    """The name of one key of a semaphore: ASCII, and no two pairs share one.

    Everything but letters, digits, ``_``, ``.`` and ``-`` is percent-encoded, so that ``/`` can only
    separate, ``~`` can only precede a digest, and a semaphore without a key has no ``/``.
    """
    name = _encoded(semaphore)
    return name if key is None else f"{name}/{_encoded(key)}"


def names_of(resource: str) -> tuple[str, str | None]:
    """The semaphore and the key that a resource is named after; of a long one its beginning and digest."""
    semaphore, slash, key = resource.partition("/")
    return _decoded(semaphore), _decoded(key) if slash else None


def semaphore_of(resource: str) -> str:
    """The name of its whole semaphore, that is of all its keys."""
    return resource.partition("/")[0]


def is_resource_name(text: str) -> bool:
    """Whether ``resource_name`` could have made it: else it is only spelt like the name that it decodes to."""
    return all(map(_is_encoded, text.split("/", 1)))


def _is_encoded(name: str) -> bool:
    if "~" in name:
        return bool(_SHORTENED.fullmatch(name))
    try:
        return _encoded(_decoded(name)) == name
    except UnicodeDecodeError:
        return False


def _decoded(name: str) -> str:
    # A long name's beginning may end within a character.
    return unquote(name, errors="replace" if "~" in name else "surrogatepass")


def _encoded(text: str) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    name = quote(raw, safe="").replace("~", "%7E")
    if len(name) <= MAX_NAME_BYTES:
        return name
    return f"{name[:READABLE]}~{hashlib.sha256(raw).hexdigest()}"


class NoneInKey(ValueError):
    """A part of a key is None, which nearly always is a mistake: all calls that make it would share one key."""


@dataclass(frozen=True)
class KeyTemplate:
    """A format string over a call's arguments by name: ``"{tenant_id}"``, ``"{order.region}:{day}"``."""

    text: str

    def names(self) -> set[str]:
        """The arguments it needs; raises ``ConfigurationError`` for a template that names none."""
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
        """The key of one call; raises ``KeyError``, ``AttributeError`` … where the call lacks a part.

        ``NoneInKey`` where a part is None, unless the template says by a conversion how to write it.
        """
        for _, field, _, conversion in Formatter().parse(self.text):
            if field is not None and conversion is None:
                value, _ = Formatter().get_field(field, (), arguments)
                if value is None:
                    raise NoneInKey(field)
        return Formatter().vformat(self.text, (), arguments)

    def lacking(self, arguments: Mapping[str, Any]) -> str | None:
        """The first part that the call lacks, such as ``order[region]``; None if it has them all."""
        for _, field, _, _ in Formatter().parse(self.text):
            try:
                if field is not None:
                    Formatter().get_field(field, (), arguments)
            except Exception:  # noqa: BLE001 - an attribute of the user's may raise anything
                return field
        return None
