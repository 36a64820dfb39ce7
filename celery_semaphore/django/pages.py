"""Read from the store what the admin's pages show."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator

from ..core.key import semaphore_of
from ..ops.inspector import Inspector
from ..ops.reasons import reasons
from ..ops.task_view import TaskState
from ..ops.views import ResourceView, View
from .models import Semaphore

PER_PAGE = 50  # a web server takes an address of 4 kB: of as many selected tasks

# What a list may be sorted by, the greatest first; rows that are equal stay in the inspector's order.
ORDERS: dict[str, Callable[[View], float]] = {
    "waiting": lambda view: -view.waiting,
    "oldest": lambda view: -(view.oldest_wait or 0.0),
}


@dataclass(frozen=True)
class Page:
    """Holds one page of a long list, and the numbers of the pages that deserve a link."""

    rows: Sequence[Any]
    number: int
    numbers: Sequence[int | str]  # a string is the … between numbers
    order: str = ""  # one of ORDERS; else as the inspector lists them


def semaphores(inspector: Inspector, number: str, order: str) -> dict[str, Any]:
    """List all semaphores."""
    views = inspector.semaphores()
    places = dict.fromkeys(view.waiting_place for view in views if view.waiting_place)
    return {"semaphores": _page(views, number, order), "places": list(places)}


def semaphore(inspector: Inspector, resource: str, number: str, order: str) -> dict[str, Any]:
    """Show one semaphore or one key: its permits, its waiters, and the keys of a semaphore with keys."""
    keys = inspector.keys(resource) if resource == semaphore_of(resource) else []
    seen, waiters = _waiters(inspector, resource, number)
    return {
        "seen": seen,
        "total": seen.with_keys(keys),
        "decided": inspector.decided(resource),
        "all_paused": inspector.is_paused_with_its_semaphore(resource),
        "has_holders": bool(seen.permits or seen.waiting or not (keys or seen.for_each_key)),
        "waiters": waiters,
        "some_wait": bool(keys and (seen.waiting or any(key.waiting for key in keys))),
        "keys": _page(keys, number, order) if keys else None,
    }


def found(inspector: Inspector, text: str) -> dict[str, Any]:
    """Show the semaphores and keys with this text in their names, or why the task with this id waits."""
    names = inspector.search(text)
    view = inspector.why(text, everywhere=not names)  # else each search for a name reads each key
    places = [wait.at for wait in view.waits] or view.permits
    is_told = view.state is not TaskState.UNKNOWN or not names
    return {
        "names": [Semaphore(resource=name) for name in names[:PER_PAGE]],
        "more": max(len(names) - PER_PAGE, 0),
        "task": view,
        "reasons": reasons(view) if is_told else [],
        "places": [Semaphore(resource=at.resource) for at in places],
    }


def _waiters(inspector: Inspector, resource: str, number: str) -> tuple[ResourceView, Page]:
    wanted = int(number) if re.fullmatch("[0-9]{1,8}", number) else 1
    first = (max(wanted, 1) - 1) * PER_PAGE
    seen = inspector.resource(resource, waiters=PER_PAGE, skip=first)
    found = Paginator(range(seen.waiting), PER_PAGE).get_page(wanted)
    if found.number != wanted:  # the line is shorter, or has become shorter
        first = (found.number - 1) * PER_PAGE
        seen = inspector.resource(resource, waiters=PER_PAGE, skip=first)
    return seen, Page(seen.waiters, found.number, _numbers(found))


def _page(rows: Sequence[View], number: str, order: str) -> Page:
    ordered = sorted(rows, key=ORDERS[order]) if order in ORDERS else rows
    found = Paginator(ordered, PER_PAGE).get_page(number)
    return Page(list(found), found.number, _numbers(found), order if order in ORDERS else "")


def _numbers(found: Any) -> list[int | str]:
    return list(found.paginator.get_elided_page_range(found.number, on_each_side=2, on_ends=1))
