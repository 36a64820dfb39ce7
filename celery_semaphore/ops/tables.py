"""Render views as text for a terminal; ``draws`` adds colours and bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from . import drawing
from .answers import limit_cell, limit_of, not_in_force, until, why_in_force, why_no_turn
from .text import NOTHING, duration, place, printable, sentence, width
from .views import KeyView, PermitView, Purged, ResourceView, SemaphoreView, View, WaiterView, Where

PERMITS = 50  # how many permits of a resource are shown
IN_TRANSIT = (
    "In transit: the message is with the broker, or with a worker that does not answer or has no free process for it. If a"
    " worker was lost, Redis and Valkey deliver its messages again after the visibility_timeout, RabbitMQ immediately."
)


RENEWED = "A lease is renewed while its task runs."
NONE_IN_USE = "No semaphore is in use, limited, or declared by a task of this app."


def semaphores(views: Sequence[SemaphoreView], *, draws: bool = False) -> str:
    if not views:
        return NONE_IN_USE
    text = table(*rows_of_semaphores(views))
    shown = drawing.drawn(text, views) if draws else text
    return "\n\n".join([shown, *notes_of_semaphores(views)])


def rows_of_semaphores(
    views: Sequence[SemaphoreView],
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the headings, and a row for each semaphore, which begins with its name."""
    rows: list[Sequence[str]] = [
        (
            printable(view.semaphore),
            _limits(view),
            str(view.keys) if view.keys else NOTHING,
            _in_use(view),
            _all_waiting(view),
            duration(view.oldest_wait),
        )
        for view in views
    ]
    return ("SEMAPHORE", "LIMIT", "KEYS", "IN USE", "WAITING", "OLDEST"), rows


def notes_of_semaphores(views: Sequence[SemaphoreView]) -> Iterator[str]:
    """Yield where their waiting tasks lie, and that the store recovers."""
    yield from map(
        sentence, dict.fromkeys(view.waiting_place for view in views if view.waiting_place)
    )
    seconds = max(filter(None, (view.recovering for view in views)), default=None)
    if seconds is not None:
        yield recovers(seconds)


def recovers(seconds: float) -> str:
    """Say that the store recovers, and for how long."""
    why = "The store was restarted or replaced, and may have forgotten permits"
    return f"{why}: it admits no task for {duration(seconds)}."


def keys(views: Sequence[KeyView], most: int, *, draws: bool = False) -> str:
    text = table(*rows_of_keys(views[:most]))
    shown = drawing.drawn(text, views[:most]) if draws else text
    return shown + _more(len(views) - most, "keys: --key KEY shows one, --json all")


def rows_of_keys(views: Sequence[KeyView]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the headings, and a row for each key, which begins with it."""
    rows: list[Sequence[str]] = [
        (
            printable(view.key or ""),
            limit_of(view),
            _in_use(view),
            _all_waiting(view),
            duration(view.oldest_wait),
        )
        for view in views
    ]
    return ("KEY", "LIMIT", "IN USE", "WAITING", "OLDEST"), rows


def whole(view: ResourceView, of_keys: Sequence[KeyView], most: int, *, draws: bool = False) -> str:
    """Show a resource, and the keys of a semaphore that has keys."""
    text = without_keys(view, of_keys, draws=draws)
    if not of_keys:
        return text
    table_of_keys = keys(of_keys, most, draws=draws)
    return f"{text}\n\n{table_of_keys}\n\n--key shows the permits and waiters of one key."


def without_keys(view: ResourceView, of_keys: Sequence[KeyView], *, draws: bool = False) -> str:
    """Show a resource, and the sums of its keys."""
    parts = [resource(view, draws=draws)]
    if view.for_each_key or not all(key.is_free for key in of_keys):
        if view.limit is None and any(key.limit is not None for key in of_keys):
            view = replace(view, own_limit=None)  # attempts declared limits for their keys
        total = view.with_keys(of_keys)
        told = f"{total.occupied} in use{_kept(total)}, {_waiting(total)}, all keys together"
        head = f"{place(view)}: {told}{_of_each_key(view)}{_paused(view)}"
        head = drawing.coloured(head, total) if draws else head
        parts = [head, *(parts if view.occupied or view.waiting else _notes(view))]
    return "\n\n".join(parts)


def resource(view: ResourceView, *, draws: bool = False) -> str:
    head = drawing.drawn_line(_headline(view), view) if draws else _headline(view)
    parts = [head, *_notes(view)]
    if view.permits:
        parts.append(shown_permits(view))
    if view.waiters:
        parts.append(waiters(view.waiters) + _more(view.waiting - len(view.waiters), "waiting"))
        parts += filter(None, [why_no_turn(view)])
    if any(waiter.where is Where.IN_TRANSIT for waiter in view.waiters):
        parts.append(IN_TRANSIT)
    if view.note:
        parts.append(f"Tasks and workers are not named: {view.note}.")
    return "\n\n".join(parts)


def _notes(view: ResourceView) -> Iterator[str]:
    if why := why_in_force(view):
        yield why
    if view.recovering is not None:
        yield recovers(view.recovering)
    if view.waiting_place:
        yield sentence(view.waiting_place)


def shown_permits(view: ResourceView) -> str:
    """Return the table of its permits, as far as they are shown, and what the end of a lease means."""
    shown = permits(view.permits[:PERMITS]) + _more(len(view.permits) - PERMITS, "permits")
    return f"{shown}\n{RENEWED}"


def permits(views: Sequence[PermitView]) -> str:
    rows = [
        (
            printable(view.task_id),
            printable(view.task or NOTHING),
            "(on its way)" if view.granted else printable(view.worker or NOTHING),
            str(view.weight),
            duration(view.held_for),
            duration(view.lease_left),
        )
        for view in views
    ]
    return table(("PERMIT OF", "TASK", "WORKER", "WEIGHT", "HELD FOR", "LEASE LEFT"), rows)


def waiters(views: Sequence[WaiterView]) -> str:
    rows = [
        (
            str(view.position),
            printable(view.task_id),
            printable(view.task or NOTHING),
            view.where.value,
            printable(view.worker or NOTHING),
            str(view.weight),
            duration(view.waited),
            "never" if view.unsatisfiable else duration(view.expected),
        )
        for view in views
    ]
    return table(
        ("AHEAD", "WAITING", "TASK", "WHERE", "WORKER", "WEIGHT", "FOR", "EXPECTED IN"), rows
    )


def purged(found: Purged) -> str:
    lines = [f"Purged {len(found.ended)} parked task(s)."]
    if found.revoked:
        how = "kept ones end within seconds, those in transit when they are delivered"
        lines.append(f"Revoked {len(found.revoked)} other task(s): {how}.")
    if found.unheard:
        lines.append(f"Still waiting: {found.unheard} other task(s), because no worker answered.")
    if found.calls:
        lines.append(f"Still waiting: {found.calls} process(es) outside tasks.")
    return "\n".join(lines)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, *rows]
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(_padded(line, widths)).rstrip() for line in lines)


def _headline(view: ResourceView) -> str:
    mean = view.mean_held
    held = "" if mean is None else f"; permits are held for {duration(mean)} on average"
    limit = limit_of(replace(view, paused=False))
    usage = f"{view.occupied} of {limit} in use{_kept(view)}, {_waiting(view)}"
    return f"{place(view)}: {usage}{_paused(view)}{held}"


def _paused(view: ResourceView) -> str:
    return f"; paused {until(view.pause_left)}" if view.paused else ""


def _of_each_key(view: ResourceView) -> str:
    limit = limit_of(replace(view, paused=False))
    return f"; limit of each key {limit}" if view.for_each_key and limit != NOTHING else ""


def _in_use(view: SemaphoreView | KeyView) -> str:
    return f"{view.occupied}{_kept(view)}{_saturated(view)}"


def _saturated(view: SemaphoreView | KeyView) -> str:
    if isinstance(view, SemaphoreView) and (keys := view.saturated_keys):
        return f" ({keys} key{'s' * (keys > 1)} saturated)"
    return " (saturated)" if view.saturated else ""


def _kept(view: View) -> str:
    """Say how much room waits keep while another of their semaphores is saturated, if any do."""
    return f", {view.kept_room} kept for waiting tasks" if view.kept_room else ""


def _all_waiting(view: SemaphoreView | KeyView) -> str:
    return f"{view.waiting}{_too_heavy(view)}"


def _waiting(view: ResourceView) -> str:
    oldest = "" if view.oldest_wait is None else f", the oldest for {duration(view.oldest_wait)}"
    return f"{view.waiting} waiting{_too_heavy(view)}{oldest}"


def _too_heavy(view: View) -> str:
    return f" ({view.unsatisfiable} too heavy)" if view.unsatisfiable else ""


def _limits(view: SemaphoreView) -> str:
    each = (limit_cell(limit, by_operator=limit in view.limits_set) for limit in view.limits)
    own = [not_in_force(view.own_limit)] if view.own_limit is not None and not view.limits else []
    paused = ["paused"] if view.paused else []
    keys = f"{view.paused_keys} key{'s' * (view.paused_keys > 1)} paused"
    return ", ".join([*each, *own, *paused, *[keys] * bool(view.paused_keys)]) or NOTHING


def _padded(line: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for text, wide in zip(line, widths, strict=True):
        yield text + " " * (wide - width(text))


def _more(count: int, what: str) -> str:
    return f"\n… and {count} more {what}" if count > 0 else ""
