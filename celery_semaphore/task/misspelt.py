"""Find misspelt options: attributes of a task that look like one of our options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.spelling import nearest

if TYPE_CHECKING:
    from .protocols import BoundTask, DeclaredTask

LONG = (
    "semaphore",
    "on_saturated",
    "on_lost",
    "wait_timeout",
    "requeue_delay",
    "requeue_max_delay",
)
# These are short, so a task may have an attribute of its own that looks like one, such as `height`.
SHORT = ("limit", "key", "weight")
# These are hardly anything else in a task without the option; with the value that the option has there.
PLURALS = {"keys": None, "weights": 1}


@dataclass(frozen=True, slots=True)
class Misspelt:
    """An attribute, and the option that was probably meant."""

    name: str
    value: object
    option: str
    certain: bool

    def __str__(self) -> str:
        return (
            f"{self.name}={self.value!r} is not an option; did you mean {self.option}?"
            " (If it is an attribute of your own, let a base class of the task define it.)"
        )


def misspelt(task: type[DeclaredTask | BoundTask]) -> Iterator[Misspelt]:
    """Yield the attributes of a task class, and of its bases outside this library, that look like our options."""
    limited = task.semaphore is not None
    for depth, cls in enumerate(task.__mro__):
        inherited = {name for base in task.__mro__[depth + 1 :] for name in vars(base)}
        if "semaphore_options" not in inherited:
            continue  # not a subclass of our mixin
        decorated = "_decorated" in vars(cls)  # its attributes are the arguments of @app.task
        for name, value in vars(cls).items():
            if name in inherited or (not decorated and hasattr(value, "__get__")):
                continue
            option, surely = _meant(name)
            # A task without a semaphore may belong to another library: there only `semaphore` can be misspelt.
            if option is not None and (limited or option == "semaphore"):
                surely = surely or _is_plural(task, name, option)
                certain = surely and depth == 0 and (decorated or option == "semaphore")
                yield Misspelt(name, value, option, certain)


def _is_plural(task: type[DeclaredTask | BoundTask], name: str, option: str) -> bool:
    """Return whether this stands for an option that the task, of one semaphore, does not have."""
    if name not in PLURALS or not isinstance(task.semaphore, str) or option in vars(task):
        return False
    return bool(inspect.getattr_static(task, option) == PLURALS[name])


def _meant(name: str) -> tuple[str | None, bool]:
    """Return the option that a name looks like, and whether hardly anything else would have this name."""
    known = (*LONG, *SHORT)
    if name in known or name.startswith("_"):
        return None, False
    if name.startswith("semaphore_"):
        return nearest(name.removeprefix("semaphore_"), known, alike=0.0), True
    option = nearest(name, known)
    return option, option in LONG
