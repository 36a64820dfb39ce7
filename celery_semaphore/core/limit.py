"""Limit: the limit that a task declares, from which each call makes a claim."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from ..errors import ConfigurationError, SemaphoreError
from .call import Call, may_fit
from .claim import HIGHEST, Claim
from .key_template import KeyTemplate, NoneInKey

Number = int | Callable[..., int]


@dataclass(frozen=True)
class Limit:
    """A limit on the total ``weight`` that runs at once, for each ``key`` of a semaphore.

    ``key`` is a format string over the call's arguments, or a callable. Callables are called in the process that runs
    the task, with the task's own arguments, or without any if they take none.
    """

    semaphore: str
    limit: Number
    key: str | Callable[..., object] | None = None
    weight: Number = 1

    @property
    def depends_on_call(self) -> bool:
        """Whether two calls may have different claims."""
        return self.key is not None or self.has_function

    @property
    def has_function(self) -> bool:
        """Whether a function of the user's makes a part of its claims."""
        return callable(self.key) or callable(self.limit) or callable(self.weight)

    def check(self, signature: inspect.Signature) -> None:
        """Raise ``ConfigurationError`` for every error that can be found before a call."""
        name: object = self.semaphore  # annotations do not bind a user
        if not isinstance(name, str) or not name:
            msg = f"semaphore={name!r} must be a name, or a list of Limit(...)."
            raise ConfigurationError(msg)
        _check_number("limit", self.limit, least=0)
        _check_number("weight", self.weight, least=1)
        if isinstance(self.limit, int) and isinstance(self.weight, int):
            _check_fits(self.weight, self.limit)
        if isinstance(self.key, str):
            _check_names(KeyTemplate(self.key), signature)
        elif not _is_key_function(self.key):
            msg = (
                f"key={self.key!r} must be a format string such as '{{tenant_id}}', or a callable."
            )
            raise ConfigurationError(msg)

        for option, asked in (("limit", self.limit), ("key", self.key), ("weight", self.weight)):
            if callable(asked):
                _check_parameters(option, asked, signature)

    def claim(self, call: Call, *, key: str | None = None, weight: int | None = None) -> Claim:
        """Return the claim of this call; a ``key`` or ``weight`` given with the call overrides the limit's.

        Raise ``SemaphoreError`` with the reason if the claim cannot be made: a call must never share a key by accident.
        """
        limit = self._number("limit", self.limit, call, least=0)
        heavy = self._number("weight", self.weight if weight is None else weight, call, least=1)
        if limit and heavy > limit:
            msg = f"semaphore {self.semaphore!r}: weight={heavy} is above limit={limit}: it could never run"
            raise SemaphoreError(msg)
        return Claim(self.semaphore, self._key(call) if key is None else key, limit, heavy)

    def _key(self, call: Call) -> str | None:
        if self.key is None:
            return None
        try:
            if isinstance(self.key, str):
                return KeyTemplate(self.key).render(call.named)
            key = _ask(self.key, call)
        except NoneInKey as error:
            msg = (
                f"semaphore {self.semaphore!r}: key={self.key!r} needs {error}, which is None in this call;"
                f" if all such calls are meant to share one key, write {{{error}!s}}"
            )
            raise SemaphoreError(msg) from error
        except Exception as error:
            msg = f"semaphore {self.semaphore!r}: {self._why_no_key(call, type(error).__name__)}"
            raise SemaphoreError(msg) from error
        if key is None:
            msg = f"semaphore {self.semaphore!r}: key={_named(self.key)} returned None; it must return a key"
            raise SemaphoreError(msg)
        return str(key)

    def _why_no_key(self, call: Call, error: str) -> str:
        # Show only the error's type: its text may contain the task's arguments.
        if isinstance(self.key, str) and (part := KeyTemplate(self.key).lacking(call.named)):
            return f"key={self.key!r} needs {part}, which the call lacks ({error})"
        return f"key={_named(self.key)} raised {error}"

    def _number(self, option: str, value: Number, call: Call, *, least: int) -> int:
        number: object = value
        if callable(value):
            try:
                number = _ask(value, call)
            except Exception as error:
                msg = f"semaphore {self.semaphore!r}: {option}= raised {type(error).__name__}"
                raise SemaphoreError(msg) from error
        if not is_whole(number) or not least <= number <= HIGHEST:
            msg = f"semaphore {self.semaphore!r}: {option}={number!r} must be a whole number from {least} to {HIGHEST}"
            raise SemaphoreError(msg)
        return number


def _ask(function: Callable[..., Any], call: Call) -> Any:
    if not inspect.signature(function).parameters:
        return function()
    return function(*call.args, **call.kwargs)


def _named(key: object) -> str:
    """Return a key as its user knows it: a function by its name, not by its address."""
    if callable(key) and hasattr(key, "__qualname__"):
        return f"{key.__module__}.{key.__qualname__}"
    return repr(key)


def _is_key_function(key: object) -> bool:
    return key is None or callable(key)


def is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def limits_of_tasks(tasks: Iterable[Any]) -> Iterator[Limit]:
    """Yield the limits that these tasks declare; a task that is not limited, or not bound yet, has none."""
    for task in tasks:
        options = getattr(task, "semaphore_options", None)
        yield from options.limits if options else ()


def _check_number(option: str, value: object, *, least: int) -> None:
    if callable(value):
        return
    if not is_whole(value) or not least <= value <= HIGHEST:
        msg = f"{option}={value!r} must be a whole number from {least} to {HIGHEST}, or a callable that returns one."
        raise ConfigurationError(msg)


def _check_fits(weight: int, limit: int) -> None:
    if limit and weight > limit:  # 0 lets the task not run, whatever the weight
        msg = f"weight={weight} is above limit={limit}: the task could never run."
        raise ConfigurationError(msg)


def _check_parameters(option: str, function: Callable[..., Any], task: inspect.Signature) -> None:
    """Raise if no call of the task fits the function, which would fail at each of them."""
    given = f"{option}={_named(function)}"
    try:
        wanted = inspect.signature(function)
    except (TypeError, ValueError) as error:
        msg = f"{given} does not reveal its parameters: wrap it in a function."
        raise ConfigurationError(msg) from error
    if wanted.parameters and not may_fit(wanted, task):
        parameters = ", ".join(str(each) for each in task.parameters.values())
        msg = (
            f"{given} takes {wanted}, and no call of the task fits that: it gets the task's own arguments,"
            f" ({parameters}), or none if it takes none."
        )
        raise ConfigurationError(msg)


def _check_names(template: KeyTemplate, signature: inspect.Signature) -> None:
    parameters = signature.parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        template.names()
        return
    known = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    if unknown := sorted(template.names() - set(known)):
        msg = (
            f"key={template.text!r} names {', '.join(unknown)}, which the task does not take;"
            f" it takes: {', '.join(known) or 'no arguments'}."
        )
        raise ConfigurationError(msg)
