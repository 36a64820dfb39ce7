"""Find settings of this library under names that no app reads."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..errors import ConfigurationError
from .spelling import ALIKE, nearest

PREFIX = "semaphore"
DJANGO = "celery_"  # the namespace of most projects; an app that reads none knows no such name


def refuse_unread(conf: Any, known: Collection[str]) -> None:
    """Raise for a setting that would silently leave a default in force: a misspelt one, or one in the wrong place.

    One that has a known name in the wrong place may belong to something else: it is let pass where its right name is
    set, too.
    """
    for key in conf:
        if (why := _why_unread(key, conf, known)) is not None:
            raise ConfigurationError(why)


def _why_unread(key: str, conf: Any, known: Collection[str]) -> str | None:
    space = (conf.prefix or "").lower()
    lowered = key.lower()
    name, is_spaced = lowered.removeprefix(space or DJANGO), lowered.startswith(space or DJANGO)
    is_read = name == key or bool(space and is_spaced)
    head, _, rest = name.partition("_")
    if not rest or not nearest(head, [PREFIX]):
        return None
    if name in known:
        is_needed = not is_read and conf.get(name) is None
        return (
            f"{key} is not read: {_instead(name, conf, is_spaced=is_spaced)}."
            if is_needed
            else None
        )
    if space and not is_spaced and not is_read:
        return None  # a setting of the project, and none of Celery's
    is_ours = head == PREFIX and (is_read or is_spaced)
    meant = nearest(name, known, alike=0.0 if is_ours else ALIKE)
    if meant is None:
        return None
    right = meant if name == key else _written(meant, conf)
    return f"unknown setting {key}; did you mean {right}?"


def _instead(name: str, conf: Any, *, is_spaced: bool) -> str:
    reads = ", or let the app read it: app.config_from_object(…, namespace='CELERY')"
    return f"write {_written(name, conf)} instead{'' if conf.prefix or not is_spaced else reads}"


def _written(name: str, conf: Any) -> str:
    """Return a setting as the app's user writes it."""
    return f"{conf.prefix}{name.upper()}" if conf.prefix else name
