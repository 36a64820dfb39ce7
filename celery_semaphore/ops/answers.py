"""Say which limit is in force, and what a pause is and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .text import NOTHING, duration, place, printable
from .views import KeyView, ResourceView

NAMED = 10  # how many keys one sentence lists


def in_force(view: ResourceView, own: Mapping[str, int]) -> str:
    """Say which limit is in force, and at which keys another one is."""
    text = f"{place(view)}: {limit_told(view)}."
    return f"{text}\n{others}" if (others := excepted(own, view.limit)) else text


def limit_told(view: ResourceView) -> str:
    """Say the limit, and that it is paused."""
    if view.limit is not None:
        by_operator = " (set)" if view.set_by_operator else ""
        of_keys = " of each key" if view.for_each_key else ""
        text = f"the limit{of_keys} is {view.limit}{by_operator}"
    elif view.own_limit is not None:
        text = f"no limit is in force yet; the tasks of this app declare {view.own_limit}"
    else:
        text = "no limit is set, or declared by a task of this app"
    if not view.paused:
        return text
    return f"{text}, and it is paused {until(view.pause_left)}: no new task starts"


def limit_of(view: ResourceView | KeyView) -> str:
    """Return the limit for a table, with a word for a pause."""
    limit = NOTHING
    if view.limit is not None:
        limit = limit_cell(view.limit, by_operator=view.set_by_operator)
    elif view.own_limit is not None:
        limit = not_in_force(view.own_limit)
    return f"{limit}, paused" if view.paused else limit


def limit_cell(limit: int, *, by_operator: bool) -> str:
    return f"{limit} (set)" if by_operator else str(limit)


def not_in_force(own_limit: int) -> str:
    """Return a limit that only this app's tasks declare: the store knows none."""
    return f"{own_limit} (not in force yet)"


def why_in_force(view: ResourceView) -> str:
    """Say why this limit is in force, and which process declared it."""
    if (declared := view.declared) is None:
        return _why_none(view)
    limit = "The limit in force after the pause" if view.paused else "The limit in force"
    smallest = f"the smallest declared last{' for all keys' if view.for_each_key else ''}"
    which = f"{declared.limit}, by {printable(declared.by)}."
    if view.set_by_operator:
        return f"{limit} was set by an operator; {smallest} is {which}"
    return f"{limit} is {smallest}: {which}"


def _why_none(view: ResourceView) -> str:
    """Say what the tasks declare where the store knows no limit; return "" elsewhere."""
    if view.limit is not None or view.own_limit is None:
        return ""
    return (
        f"The store knows no limit yet; the tasks of this app declare {view.own_limit}."
        " It is in force once one of their workers starts, or a task asks for a permit."
    )


def why_no_turn(view: ResourceView) -> str:
    """Say that the permits in use refute the mean; return "" if they do not, or if a pause lasts."""
    if view.paused or not view.outlasts_mean:
        return ""
    usual = duration(view.mean_held)
    return (
        "When a turn comes is unknown: each permit in use has been held for more than twice as long as usual"
        f" ({usual})."
    )


def until(left: float | None) -> str:
    """Say how long a pause lasts."""
    return "until it is resumed" if left is None else f"for another {duration(left)}"


def stays_paused(keys: Sequence[str]) -> str:
    """List the keys of a semaphore that have a pause of their own; return "" if there is none."""
    if not keys:
        return ""
    stay = "1 key has its own pause, which stays" if len(keys) == 1 else ""
    named = _listed([*map(printable, keys)])
    return f"{stay or f'{len(keys)} keys have their own pauses, which stay'}: {named}."


def excepted(own: Mapping[str, int], limit: int | None) -> str:
    """List the keys at which another limit is in force than at their semaphore; return "" if there is none."""
    others = [f"{printable(key)} ({each})" for key, each in own.items() if each != limit]
    if not others:
        return ""
    return f"These keys have their own limits, which stay in force: {_listed(others)}."


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
