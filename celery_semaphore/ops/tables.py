"""Render views as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from .views import PermitView, Purged, ResourceView, SemaphoreView, WaiterView, Where

MINUTE, HOUR = 60.0, 3600.0
NOTHING = "-"
IN_TRANSIT = (
    "In transit: the message is with the broker, or with a worker that does not answer or has no free process for it. If a"
    " worker was lost, Redis and Valkey deliver its messages again after the visibility_timeout, RabbitMQ at once."
)
NAMED = 10  # how many keys one sentence lists


def semaphores(views: Sequence[SemaphoreView]) -> str:
    if not views:
        return "No semaphore is in use, limited, or declared by a task of this app."
    rows = [
        (
            printable(view.semaphore),
            _limits(view),
            str(view.keys) if view.keys else NOTHING,
            _in_use(view),
            str(view.waiting),
            duration(view.oldest_wait),
        )
        for view in views
    ]
    text = table(("SEMAPHORE", "LIMIT", "KEYS", "IN USE", "WAITING", "OLDEST"), rows)
    places = dict.fromkeys(view.waiting_place for view in views if view.waiting_place)
    return text + "".join(f"\n\n{sentence(place)}" for place in places) + _recovering(views)


def _recovering(views: Sequence[SemaphoreView] | Sequence[ResourceView]) -> str:
    seconds = max(filter(None, (view.recovering for view in views)), default=None)
    return "" if seconds is None else f"\n\n{recovers(seconds)}"


def sentence(text: str) -> str:
    """Return the text as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:]}."


def recovers(seconds: float) -> str:
    """Say that the store recovers, and for how long."""
    why = "The store was restarted or replaced, and may have forgotten permits"
    return f"{why}: it admits no task for {duration(seconds)}."


def keys(views: Sequence[ResourceView], most: int) -> str:
    rows = [
        (
            printable(view.key or ""),
            limit_of(view),
            _in_use(view),
            str(view.waiting),
            duration(view.oldest_wait),
        )
        for view in views[:most]
    ]
    text = table(("KEY", "LIMIT", "IN USE", "WAITING", "OLDEST"), rows)
    return text + _more(len(views) - len(rows), "keys") + _recovering(views)


def whole(view: ResourceView, of_keys: Sequence[ResourceView], most: int) -> str:
    """Show a resource, and the keys of a semaphore that has keys."""
    if not of_keys:
        return resource(view)
    total = view.with_keys(of_keys)
    parts = [
        f"{place(view)}: {total.occupied} in use{_kept(total)}, {_waiting(total)}, all keys together"
    ]
    if view.occupied or view.waiting:  # tasks without a key
        parts.append(resource(view))
    return "\n\n".join(
        [*parts, keys(of_keys, most), "--key shows the permits and waiters of one key."]
    )


def resource(view: ResourceView) -> str:
    parts = [_headline(view)]
    if why := why_in_force(view):
        parts.append(why)
    if view.recovering is not None:
        parts.append(recovers(view.recovering))
    if view.waiting_place:
        parts.append(sentence(view.waiting_place))
    if view.permits:
        parts.append(permits(view.permits))
    if view.waiters:
        parts.append(waiters(view.waiters) + _more(view.waiting - len(view.waiters), "waiting"))
    if any(waiter.where is Where.IN_TRANSIT for waiter in view.waiters):
        parts.append(IN_TRANSIT)
    if view.note:
        parts.append(f"Tasks and workers are not named: {view.note}.")
    return "\n\n".join(parts)


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
        how = "held ones end within seconds, one in transit when it is delivered"
        lines.append(f"Revoked {len(found.revoked)} other task(s): {how}.")
    if found.unheard:
        lines.append(f"Still waiting: {found.unheard} other task(s), for no worker answered.")
    if found.calls:
        lines.append(f"Still waiting: {found.calls} process(es) outside tasks.")
    return "\n".join(lines)


def in_force(view: ResourceView, own: Mapping[str, int]) -> str:
    """Say which limit is in force, and at which keys another one is."""
    text = f"{place(view)}: {limit_told(view)}."
    return f"{text}\n{others}" if (others := excepted(own, view.limit)) else text


def limit_told(view: ResourceView) -> str:
    """Say the limit, and that it is paused."""
    if view.limit is None:
        text = "no limit is set, or declared by a task of this app"
    else:
        by_operator = " (set)" if view.set_by_operator else ""
        text = f"the limit is {view.limit}{by_operator}"
    if not view.paused:
        return text
    return f"{text}, and it is paused {until(view.pause_left)}: no new task starts"


def until(left: float | None) -> str:
    """Say how long a pause lasts."""
    return "until it is resumed" if left is None else f"for another {duration(left)}"


def stays_paused(keys: Sequence[str]) -> str:
    """List the keys of a semaphore that have a pause of their own; return "" if there is none."""
    if not keys:
        return ""
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    named = ", ".join(map(printable, keys[:NAMED]))
    stay = "1 key has a pause of its own, which stays" if len(keys) == 1 else ""
    return f"{stay or f'{len(keys)} keys have pauses of their own, which stay'}: {named}{more}."


def excepted(own: Mapping[str, int], limit: int | None) -> str:
    """List the keys at which another limit is in force than at their semaphore; return "" if there is none."""
    others = [f"{printable(key)} ({each})" for key, each in own.items() if each != limit]
    if not others:
        return ""
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    named = ", ".join(others[:NAMED])
    return f"These keys have limits of their own, which stay in force: {named}{more}."


def limit_of(view: ResourceView) -> str:
    """Return the limit for a table, with a word for a pause."""
    limit = NOTHING
    if view.limit is not None:
        limit = _limit(view.limit, by_operator=view.set_by_operator)
    return f"{limit}, paused" if view.paused else limit


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(_padded(line, widths)).rstrip() for line in lines)


def duration(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    if seconds < 2 * MINUTE:
        return f"{seconds:.1f} s"
    return f"{seconds / MINUTE:.0f} min" if seconds < 2 * HOUR else f"{seconds / HOUR:.1f} h"


def printable(text: str) -> str:
    """Return the text, escaped if it has control characters: a key may be any text, and must not control a terminal."""
    return text if text.isprintable() and text else ascii(text)


def _headline(view: ResourceView) -> str:
    lately = "" if view.mean_held is None else f"; a permit is held for {duration(view.mean_held)}"
    limit = limit_of(replace(view, paused=False))
    usage = f"{view.occupied} of {limit} in use{_kept(view)}, {_waiting(view)}"
    paused = f"; paused {until(view.pause_left)}" if view.paused else ""
    return f"{place(view)}: {usage}{paused}{lately}"


def why_in_force(view: ResourceView) -> str:
    """Say why this limit is in force, and which process declared it; return "" if none is declared."""
    if (declared := view.declared) is None:
        return ""
    lately = f"the smallest limit declared lately is {declared.limit}, by {printable(declared.by)}"
    if view.set_by_operator:
        return f"In force is the limit that was set; {lately}."
    return f"In force is what is declared: {lately}."


def _in_use(view: SemaphoreView | ResourceView) -> str:
    return f"{view.occupied}{_kept(view)}"


def _kept(view: SemaphoreView | ResourceView) -> str:
    """Say how much room waits keep while another of their semaphores is saturated, if any do."""
    return f", {view.kept} kept for waiting tasks" if view.kept else ""


def _waiting(view: ResourceView) -> str:
    oldest = "" if view.oldest_wait is None else f", the oldest for {duration(view.oldest_wait)}"
    return f"{view.waiting} waiting{oldest}"


def place(view: ResourceView) -> str:
    name = printable(view.semaphore)
    return name if view.key is None else f"{name} at key {printable(view.key)}"


def _limits(view: SemaphoreView) -> str:
    each = (_limit(limit, by_operator=limit in view.limits_set) for limit in view.limits)
    paused = ["paused"] if view.paused else []
    if view.paused_keys and not view.paused:
        paused = [f"{view.paused_keys} paused"]
    return ", ".join([*each, *paused]) or NOTHING


def _limit(limit: int, *, by_operator: bool) -> str:
    return f"{limit} (set)" if by_operator else str(limit)


def _padded(line: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for text, width in zip(line, widths, strict=True):
        yield text.ljust(width)


def _more(count: int, what: str) -> str:
    return f"\n… and {count} more {what}" if count > 0 else ""
