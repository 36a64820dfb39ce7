"""Convert the arguments of a task with ``pydantic=True``, by a private part of Celery.

It was read in Celery 5.5 to 5.7. tests/task/test_pydantic.py fails when it is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import getclosurevars, isfunction
from typing import Any

from celery import Celery

PYDANTIC = "celery.app.base"  # the module of the function that converts arguments


def converter_of(run: Any, app: Celery) -> Callable[..., tuple[Any, Any]] | None:
    """Return a function that converts arguments to models, as Celery does before a body; None for another body.

    Celery hides the conversion in the function that it puts around the body, and keeps the user's options there, too.
    So the same function is put around one that returns what it gets.
    """
    if getattr(run, "__globals__", {}).get("__name__") != PYDANTIC or not hasattr(
        run, "__wrapped__"
    ):
        return None
    hidden = _hidden_in(run)

    @wraps(run.__wrapped__)
    def returned(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return args, kwargs

    convert: Callable[..., tuple[Any, Any]] = import_module(PYDANTIC).pydantic_wrapper(
        app, returned, "", hidden.get("strict", False), hidden.get("context")
    )
    return convert


def _hidden_in(function: Any) -> dict[str, Any]:
    """Return the variables that a function and the functions inside it keep from where they were defined."""
    found = dict(getclosurevars(function).nonlocals)
    for each in list(found.values()):
        if isfunction(each) and each.__globals__ is function.__globals__:
            found = {**getclosurevars(each).nonlocals, **found}
    return found
