"""Read from the store what the admin's pages show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator

from ..core.key import semaphore_of
from ..ops.inspector import Inspector
from ..ops.views import ResourceView, SemaphoreView

PER_PAGE = 100

View = SemaphoreView | ResourceView


@dataclass(frozen=True)
class Page:
    """Holds one page of a long list, and the numbers of the pages that deserve a link."""

    rows: Sequence[Any]
    number: int
    numbers: Sequence[int | str]  # a string is the … between numbers


def semaphores(inspector: Inspector, number: str) -> dict[str, Any]:
    """List all semaphores."""
    views = inspector.semaphores()
    places = dict.fromkeys(view.waiting_place for view in views if view.waiting_place)
    return {"semaphores": _page(views, number), "places": list(places)}


def semaphore(inspector: Inspector, resource: str, number: str) -> dict[str, Any]:
    """Show one semaphore or one key: its permits, its waiters, and the keys of a semaphore with keys."""
    keys = inspector.keys(resource) if resource == semaphore_of(resource) else []
    seen, waiters = _waiters(inspector, resource, number)
    return {
        "seen": seen,
        "all_paused": inspector.is_paused_with_its_semaphore(resource),
        "has_holders": bool(seen.permits or seen.waiting or not (keys or seen.for_each_key)),
        "waiters": waiters,
        "keys": _page(keys, number) if keys else None,
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


def _page(rows: Sequence[View], number: str) -> Page:
    found = Paginator(rows, PER_PAGE).get_page(number)
    return Page(list(found), found.number, _numbers(found))


def _numbers(found: Any) -> list[int | str]:
    return list(found.paginator.get_elided_page_range(found.number, on_each_side=2, on_ends=1))
