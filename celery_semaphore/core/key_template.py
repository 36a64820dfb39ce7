"""KeyTemplate: render the key of a call from its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

from ..errors import ConfigurationError

GIVE_THE_KEY = "Give the key itself, as in key=str(tenant_id) or key=f'{tenant_id}'."


def is_template(text: str) -> bool:
    """Return whether a text that shall be a key itself has fields, as ``"{tenant_id}"``; a JSON text has none."""
    try:
        fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    except ValueError:
        return False
    return any(re.match(r"[^\W\d]\w*([.[]|$)", field) for field in fields)


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
            msg = f"key={self.text!r} is not a format string: {error}. Double a brace that is meant as one."
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
