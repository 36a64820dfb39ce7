"""The judge of the rolling soak: what the counting server saw, against what may be.

*Above the limit.* At an entry at time t with n inside, let m be the one of these n that was admitted
last. When m was admitted the other n - 1 had their permits already and kept them until t, so n is at most
the limit in force at that moment. It lies between t and the admission of the task that enters at t, which
is at most ``TAKE_UP_S`` before t (a parked task's permit is kept so long while its message is on its way)
and a margin for a busy machine. So the bound is the largest limit in force since ``t - ADMITTED_S``. A
lowered limit takes nothing from tasks that run, and needs no allowance: they only must not be joined by
another one. This is narrower than the largest limit since the entry of the oldest inside.
The smallest limit that was declared lately is in force. So the limit of a worker is in force from its start on,
and after its end until another worker has surely acquired: its entry at least ``ADMITTED_S`` later.

*Lost and repeated.* A cold end cuts the tasks that run: plain Celery loses those with early acks and repeats
those with late acks. At a warm end it forgets the tasks that it wrote to a process and did not see accepted
yet: they run, and are delivered again. So each task's runs are looked at one by one, and no figure excuses
these: a task that only waited is lost; a warm end cuts a task, or loses one; a task with late acks never
completes; a task runs again that no end and no restart of the broker touched. What a worker's end repeats, or loses
of what ran, is compared with the plain tasks beside: see `rates.py`. What a restart of the broker repeats is only
reported: it delivers again whatever it had no acknowledgement of, and a limited task is not acknowledged before it
has a permit, so more of them are in that moment.

*Delayed.* RabbitMQ passes what is delayed from one queue to the next at least once: where it is stopped after it had
published a message to the next queue, and before it had removed it from the first, both come, with one id. Of plain
tasks with a countdown of 1 to 3 s, some 300 a second, it doubled 18 in 58 restarts, each due to be passed on within
30 ms of the stop. So a task counts as repeated by the restart of the broker if its message was to be passed on then
or while the broker was away. Plain tasks with a countdown are beside it.

*Joined.* Celery's handler of QUIT cancels consumers, and so reads frames of RabbitMQ beside the loop that it
interrupted. If the loop had read a body that was not handled yet, py-amqp takes the body of a later message for the
first half of this one, and Celery drops what it cannot decode. So a task whose message a worker that was told to end
cold could not decode counts as lost, as plain ones are, and is no fault.

*Popped.* Redis loses a message that kombu popped and had not kept when the server stopped, or when a worker
that hung or crashed was gone. The broker's record shows such a pop (see `record.py`), so no task is excused
that our code received.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from .fleet import Life
from .kinds import Sent
from .record import Record
from .said import Published, Said

TAKE_UP_S = 4.0  # semaphore_take_up of the app under test
ADMITTED_S = 1.0  # longest between an acquire and the entry of its task, on a busy machine
LATELY_S = 1.0  # what was noted or completed so shortly before a cut may be cut with it
STOOD_STILL_S = (
    10.0  # longest that a worker's loop leaves an end unread on a busy machine; 3.6 s were seen
)

Entry = Sequence[Any]  # of the counter's log: time, event, task, run, the worker's process, inside
Kind = tuple[bool, str]  # whether its tasks are plain, and their acks
Windows = Sequence[tuple[float, float]]


@dataclass
class Run:
    """One body, from its entry to its end."""

    task: str
    life: Life
    began: float
    ended: float = float("inf")
    how: str = "inside"

    @property
    def is_cut(self) -> bool:
        return self.how in ("failed", "closed")


class Bound(NamedTuple):
    """How many were inside at an entry, and how many might have been."""

    at: float
    inside: int
    limit: int
    pure: bool  # whether all limits that may have been in force were the same


def runs_of(log: Iterable[Entry], lives: Iterable[Life]) -> list[Run]:
    """Return all runs of a resource, by their entries."""
    by_pid = {life.worker.pid: life for life in lives}
    runs: dict[str, Run] = {}
    for at, event, task, name, pid, _ in log:
        if event == "entered":
            runs[name] = Run(task, by_pid[pid], at)
        else:
            runs[name].ended, runs[name].how = at, event
    return list(runs.values())


def bounds(log: Sequence[Entry], lives: Sequence[Life]) -> list[Bound]:
    """Return what was inside at each entry of one limited resource, beside what may be."""
    entries = [entry for entry in log if entry[1] == "entered"]
    in_force = [(life.limit, life.began, _last_in_force(life, entries)) for life in lives]
    found = []
    for at, _, _, _, _, inside in entries:
        limits = {limit for limit, since, until in in_force if since <= at <= until}
        found.append(Bound(at, inside, max(limits), len(limits) == 1))
    return found


def _last_in_force(life: Life, entries: Sequence[Entry]) -> float:
    """Return until when a task may enter that was admitted by this worker's limit."""
    if life.gone is None:
        return float("inf")
    certain = life.gone + ADMITTED_S
    replaced = next((entry[0] for entry in entries if entry[0] > certain), float("inf"))
    return replaced + TAKE_UP_S + ADMITTED_S


@dataclass
class Findings:
    """What became of the tasks of one kind."""

    sent: int = 0
    completed: int = 0
    cut: int = 0  # tasks of which a run was cut
    exposed: int = 0  # tasks that ran or were acknowledged shortly before their worker's end
    lost: list[str] = field(default_factory=list)  # never completed
    popped: list[str] = field(default_factory=list)  # of these: lost between kombu and Redis
    repeated: list[str] = field(default_factory=list)  # ran again beyond their acks ...
    # ... and these likewise, of so many that ran while the broker was restarted
    repeated_by_broker: list[str] = field(default_factory=list)
    exposed_to_broker: int = 0
    faults: dict[str, str] = field(default_factory=dict)  # what no way of ending excuses


class Judge:
    """Knows when workers and brokers came to an end, and so what each end excuses."""

    def __init__(
        self,
        lives: Sequence[Life],
        said: Mapping[str, Said],
        away: Windows,
        record: Record | None = None,
        *,
        broker_delays: bool = False,
    ) -> None:
        self._lives = lives
        self._said = said
        self._away = away  # when the broker was
        self._broker_delays = broker_delays
        self._record = record or Record()  # RabbitMQ hands out nothing that it does not keep
        killed = [
            (life.cold, life.gone)
            for life in lives
            if (life.hung or life.crashed) and life.cold and life.gone
        ]
        self._pops = [*away, *killed]

    def findings(
        self, sent: Mapping[str, Sent], logs: Mapping[str, Sequence[Entry]]
    ) -> dict[Kind, Findings]:
        """Return what became of all tasks, by whether they are plain and by their acks."""
        runs: dict[str, list[Run]] = defaultdict(list)
        for log in logs.values():
            for run in runs_of(log, self._lives):
                runs[run.task].append(run)
        found: dict[Kind, Findings] = defaultdict(Findings)
        for task, how in sent.items():
            self._look(task, how, runs[task], found[how.is_plain, how.acks])
        return dict(found)

    def _look(self, task: str, how: Sent, runs: list[Run], found: Findings) -> None:
        completed = any(run.how == "completed" for run in runs)
        found.sent += 1
        found.completed += completed
        found.cut += any(run.is_cut for run in runs)
        by_broker = self._was_delayed_over_a_stop(task, how) or any(
            self._met_restart(run) for run in runs
        )
        found.exposed_to_broker += by_broker
        found.exposed += not by_broker and any(
            self._is_exposed(run, late=how.is_late) for run in runs
        )
        if not completed:
            found.lost.append(task)
        if not completed and self._record.is_lost(task, self._pops):
            found.popped.append(task)
            return
        if _is_repeated(runs, late=how.is_late):
            (found.repeated_by_broker if by_broker else found.repeated).append(task)
        if fault := self._fault(task, how, runs, completed=completed, by_broker=by_broker):
            known = self._said.get(task) or Said()
            found.faults[task] = (
                f"{fault}: sent at {how.at:.3f}, received {known.received} times, published"
                f" {known.published}; the broker was away {self._away}; its record:"
                f" {self._record.story(task)}"
            )

    def _fault(
        self, task: str, how: Sent, runs: list[Run], *, completed: bool, by_broker: bool
    ) -> str | None:
        """Say what no end of a worker or broker excuses."""
        if not completed and self._was_joined(task):
            return None
        if any(run.is_cut and run.ended < _cut_from(run.life) for run in runs):
            return "was cut by a warm end"
        if not completed and how.is_late:
            return "has late acks and never completed"
        if not runs and not self._was_cut_at_its_beginning(task):
            return "never began, and no cold end cut it at its beginning"
        if _is_repeated(runs, late=how.is_late) and not (
            by_broker or any(self._is_exposed(run, late=how.is_late) for run in runs)
        ):
            return "ran again, though neither its worker's end nor the broker's touched it"
        return None

    def _was_cut_at_its_beginning(self, task: str) -> bool:
        """Tell whether an early-ack task was cut between its acknowledgement and its first line."""
        noted = self._said[task].noted if task in self._said else None
        return noted is not None and noted.at >= _cut_from(noted.life)

    def _was_joined(self, task: str) -> bool:
        """Tell whether a cold end joined its message to another one."""
        known = self._said.get(task) or Said()
        return any(
            life.way != "TERM" and not life.crashed and at >= _cut_from(life)
            for life, at in known.undecodable
        )

    def _is_exposed(self, run: Run, *, late: bool) -> bool:
        """Tell whether its acknowledgement may have been lost with its worker or with the broker."""
        if self._met_restart(run):
            return True
        told = run.life.told
        if told is None or run.ended < told - STOOD_STILL_S:
            return False
        return run.ended >= told - LATELY_S or not self._was_acknowledged(
            run, late, told - LATELY_S
        )

    def _met_restart(self, run: Run) -> bool:
        """Tell whether the broker was away while it ran, or shortly after."""
        return any(run.began <= end and run.ended >= begin - LATELY_S for begin, end in self._away)

    def _was_delayed_over_a_stop(self, task: str, how: Sent) -> bool:
        """Tell whether a message of it was passed on from one queue of delays to the next as the broker was stopped."""
        known = self._said.get(task) or Said()
        published = [Published(how.at, how.delay), *known.published]
        return self._broker_delays and any(
            begin - LATELY_S <= at <= end
            for message in published
            for at in message.passed_on()
            for begin, end in self._away
        )

    def _was_acknowledged(self, run: Run, late: bool, by: float) -> bool:
        since = run.began if late else run.began - LATELY_S  # early acks precede the first line
        said = self._said.get(run.task) or Said()
        return any(since <= at < by for life, at in said.acknowledged if life is run.life)


def _cut_from(life: Life) -> float:
    """Return since when the cold end of a worker cuts what it does; never, if its end is warm."""
    return float("inf") if life.cold is None else life.cold - LATELY_S


def _is_repeated(runs: list[Run], *, late: bool) -> bool:
    """Tell whether it ran again: at all with early acks, though its last run was not cut with late ones."""
    ordered = sorted(runs, key=lambda run: run.began)
    return any(
        not (late and one.is_cut and one.ended <= two.began) for one, two in pairwise(ordered)
    )
