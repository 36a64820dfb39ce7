"""Say in sentences why a task waits, or what else is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from ..core.wait import Kind
from .answers import until, why_in_force, why_no_turn
from .replies import NOT_ASKED
from .tables import IN_TRANSIT, recovers
from .task_view import HeldView, TaskState, TaskView, WaitView
from .text import duration, name_of, place, printable
from .views import ResourceView, Where

UNKNOWN = (
    "It may still be in its queue, or wait for its countdown, eta or rate limit: a task is known here from its first"
    " attempt to get a permit. `celery -A … inspect active_queues` says whether a worker consumes its queue. Perhaps it"
    " has ended without a stored result, was lost with its worker, was never sent, or has another id."
)
WHOLE_ID = "Give the id whole: this is not a full UUID, as Celery gives to tasks."
IS_RECEIVED = (
    "stands in no line: it waits for its countdown or eta, or for its worker to ask again."
)
BUSY = "It waits for a process there, and stands in no line yet; `celery -A … inspect active -d {}` names what runs."


def reasons(view: TaskView) -> list[str]:
    """Return the sentences of each wait, else those of the permits, else what is known without the store."""
    if view.waits:
        return [said for wait in view.waits for said in _wait(view, wait)]
    return list(_BY_STATE[view.state](view))


def _wait(view: TaskView, wait: WaitView) -> Iterator[str]:
    yield f"{_task(view)} {_DOING[wait.state]} {place(wait.at)}."
    if wait.state is TaskState.WAITS:
        yield _position(wait)
        yield from _why(wait)
    elif wait.state is TaskState.GRANTED:
        yield _coming(wait)
    if wait.also:
        also = " and ".join(map(place, wait.also))
        yield f"It needs a permit of {also} together with that one."
        yield from map(_other, wait.also)
    if wait.state is TaskState.WAITS and (why := why_in_force(wait.at)):
        yield why
    yield f"{_where(wait)}."


_DOING = {
    TaskState.WAITS: "waits for",
    TaskState.GRANTED: "was granted a permit of",
    TaskState.RETURNS: "waits no longer: its wait has ended without a permit of",
}


def _position(wait: WaitView) -> str:
    waiter = wait.waiter
    ahead = "It is the first in line"
    if waiter.position:
        are = "is" if waiter.position == 1 else "are"
        ahead = f"{waiter.position} {are} ahead of it in line"
    expected = waiter.expected
    turn = "" if expected is None else f"; its turn is expected in {duration(expected)}"
    return f"{ahead}, and it has waited for {duration(waiter.waited)}{turn}."


def _why(wait: WaitView) -> Iterator[str]:
    at, waiter = wait.at, wait.waiter
    if at.recovering is not None:
        yield recovers(at.recovering)
    if at.paused:
        yield f"{place(at)} is paused {until(at.pause_left)}: no new task starts."
    if waiter.unsatisfiable:
        yield f"It needs {waiter.weight} permits, but the limit is {at.limit}: it waits until that is raised."
    elif unknown := why_no_turn(at):
        yield unknown
    yield _in_use(at, waiter.weight)


def _other(at: ResourceView) -> str:
    """Say what keeps a task from the permit of another semaphore, or that one is free."""
    paused = f"is paused {until(at.pause_left)}" if at.paused else ""
    full = at.limit is not None and at.occupied + at.kept_room >= at.limit
    state = paused or ("has no free permit" if full else "has a free permit")
    return f"{place(at)} {state}: {_used(at)} in use."


def _in_use(at: ResourceView, weight: int) -> str:
    needs = f"; it needs {weight}" if weight > 1 else ""
    return f"Permits in use: {_used(at)}{needs}."


def _used(at: ResourceView) -> str:
    limit = "" if at.limit is None else f" of {at.limit}"
    kept = f", {at.kept_room} kept for waiting tasks" if at.kept_room else ""
    return f"{at.occupied}{limit}{kept}"


def _coming(wait: WaitView) -> str:
    return f"The permit is kept for it for another {duration(wait.grant_left)}."


def _where(wait: WaitView) -> str:
    if wait.state is TaskState.RETURNS:
        return "Its message goes back to its queue, and a worker ends it or begins anew"
    waiter = wait.waiter
    if wait.state is TaskState.GRANTED and waiter.kind is Kind.PARK:
        return "Its message is on its way from the store to a worker"
    if waiter.where is Where.KEPT:
        return f"Its message is kept by {_by(waiter.worker)}"
    return _WHERE[waiter.where]


_WHERE = {
    Where.PARKED: "Its message is parked in the store",
    Where.CALLING: "It is no task, but a process that waits in a Semaphore",
    Where.IN_TRANSIT: IN_TRANSIT.rstrip("."),
}


def _runs(view: TaskView) -> Iterator[str]:
    if view.note == NOT_ASKED:
        yield f"{_task(view)} holds its permit; no worker was asked whether it runs."
    elif view.worker is None:
        yield f"{_task(view)} holds its permit, but no worker says that it runs."
    else:
        yield f"{_task(view)} runs at {printable(view.worker)}."
    yield from map(_held, view.permits)
    if not view.permits:
        yield "It holds no permit: it is not limited, or it has lost its permit."
    elif view.worker is None and view.note != NOT_ASKED:
        yield "If its worker was lost, the permit ends with its lease."


def _held(held: HeldView) -> str:
    permit = held.permit
    weight = f", weight {permit.weight}" if permit.weight > 1 else ""
    since, left = duration(permit.held_for), duration(permit.lease_left)
    lease = f"its lease, which is renewed while the task runs, has {left} left"
    return (
        f"It has held a permit of {name_of(held.semaphore, held.key)} for {since}{weight}; {lease}."
    )


def _received(view: TaskView) -> Iterator[str]:
    yield f"{_task(view)} was received by {_by(view.worker)}, and {IS_RECEIVED}"


def _prefetched(view: TaskView) -> Iterator[str]:
    yield f"{_task(view)} was prefetched by {_by(view.worker)}."
    yield BUSY.format(_by(view.worker))


def _ended(view: TaskView) -> Iterator[str]:
    yield f"{_task(view)} has ended: its result is {view.result}."


def _unknown(view: TaskView) -> Iterator[str]:
    yield f"{_task(view)} neither waits for a permit nor holds one."
    yield UNKNOWN
    if not _is_uuid(view.task_id):
        yield WHOLE_ID


_BY_STATE = {
    TaskState.RUNS: _runs,
    TaskState.PREFETCHED: _prefetched,
    TaskState.RECEIVED: _received,
    TaskState.ENDED: _ended,
    TaskState.UNKNOWN: _unknown,
}


def _task(view: TaskView) -> str:
    name = "" if view.task is None else f" ({printable(view.task)})"
    return f"{printable(view.task_id)}{name}"


def _by(worker: str | None) -> str:
    return "a worker" if worker is None else printable(worker)


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
