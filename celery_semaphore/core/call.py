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


def may_fit(function: inspect.Signature, task: inspect.Signature) -> bool:
    """Return whether any call of a task fits a function that gets its arguments as they were given."""
    kinds = inspect.Parameter
    parameters = list(task.parameters.values())
    if any(each.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD) for each in parameters):
        return True  # a call may have any arguments
    positional = [each for each in parameters if each.kind is not kinds.KEYWORD_ONLY]
    for count in range(
        len(positional) + 1
    ):  # so many arguments are given by position, the others by name
        named = {
            each.name: None
            for each in parameters
            if each not in positional[:count]
            and (each.default is kinds.empty or each.name in function.parameters)
        }
        if _binds(task, count, named) and _binds(function, count, named):
            return True
    return False


def _binds(signature: inspect.Signature, count: int, named: Mapping[str, None]) -> bool:
    try:
        signature.bind(*[None] * count, **named)
    except TypeError:
        return False
    return True
