"""Call: the arguments of one call of a task."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """The arguments of one call, as given and by the names of the task's parameters."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    named: Mapping[str, Any]

    @classmethod
    def bind(cls, signature: inspect.Signature, args: Any, kwargs: Any) -> Call:
        """Return the call with its arguments by name, defaults included; raise ``TypeError`` if it does not fit."""
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return cls(tuple(args), kwargs, named)
