"""Why a task waits, by its id: what the store, the workers and the result say, in sentences."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import SemaphoreError
from celery_semaphore.ops.inspector import Inspector
from celery_semaphore.ops.reasons import BUSY, IS_RECEIVED, UNKNOWN, WHOLE_ID, reasons
from celery_semaphore.ops.replies import NOT_ASKED, Replies, TaskAt
from celery_semaphore.ops.tables import IN_TRANSIT
from celery_semaphore.ops.task_view import TaskState
from celery_semaphore.ops.why import told
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing import Clock, MemoryStore

LEASE = 30.0
API, DISK = Claim("api", None, 1), Claim("disk", "x", 1)
SESSION = "worker"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(StoreOptions(lease=LEASE, now=clock))


class Workers:
    """Answers for the workers what the test says."""

    def __init__(self, **tasks: TaskAt) -> None:
        self.tasks = {task_id: [at] for task_id, at in tasks.items()}
        self.problem: str | None = None
        self.asked: Collection[str] = ()

    def __call__(self, ids: Collection[str]) -> Replies:
        self.asked = ids
        return Replies({each: at for each, at in self.tasks.items() if each in ids}, self.problem)


def hold(store: MemoryStore, holder: str, *claims: Claim) -> None:
    assert isinstance(store.acquire(claims or [API], holder), Permit)


def wait(store: MemoryStore, holder: str, *claims: Claim, **how: Any) -> Ticket:
    answer = store.acquire(claims or [API], holder, Wait(how.pop("kind", Kind.REQUEUE), **how))
    assert isinstance(answer, Refusal)
    assert answer.ticket
    return answer.ticket


def park(store: MemoryStore, holder: str, *claims: Claim) -> Ticket:
    ticket = wait(store, holder, *claims, kind=Kind.PARK)
    store.attach(ticket, claims or [API], b"", name=holder)
    return ticket


def said(store: MemoryStore, task_id: str = "t", **given: Any) -> list[str]:
    return reasons(Inspector(store, **given).why(task_id))


def test_a_kept_task_and_those_before_it(store: MemoryStore, clock: Clock) -> None:
    store.ask(SESSION)
    hold(store, "a:1")
    clock.advance(2)
    store.release("a:1", [API])  # so that it is known how long permits are held
    hold(store, "b:1")
    for holder in ("c:1", "t:1"):
        clock.advance(0.25)
        wait(store, holder, session=SESSION)
    workers = Workers(
        t=TaskAt("shop.call", "celery@one", active=False),
        b=TaskAt("shop.other", "celery@two", active=True),
    )
    clock.advance(1)
    view = Inspector(store, ask=workers).why("t")
    assert set(workers.asked) == {"t", "b"}
    assert (view.state, view.task, view.worker) == (TaskState.WAITS, "shop.call", "celery@one")
    (one,) = view.waits
    assert [(each.task, each.worker, each.held_for) for each in one.at.permits] == [
        ("shop.other", "celery@two", 1.5)
    ]
    by = store.snapshot("api").declared
    assert by
    assert reasons(view) == [
        "t (shop.call) waits for api.",
        "1 is ahead of it in line, and it has waited for 1.0 s; its turn is expected in 4.0 s.",
        "Permits in use: 1 of 1.",
        f"The limit in force is the smallest declared last: 1, by {by.by}.",
        "Its message is kept by celery@one.",
    ]
    assert told(view).splitlines()[6:] == [
        "PERMIT OF  TASK        WORKER      WEIGHT  HELD FOR  LEASE LEFT",
        "b          shop.other  celery@two  1       1.5 s     28.5 s",
        "A lease is renewed while its task runs.",
    ]
    clock.advance(3)
    assert said(store)[1:3] == [
        "1 is ahead of it in line, and it has waited for 4.0 s.",
        "When a turn comes is unknown: each permit in use has been held for more than twice as long as usual (2.0 s).",
    ]


def test_a_parked_task_that_needs_several(store: MemoryStore) -> None:
    hold(store, "a:1", DISK)
    park(store, "t:1", API, DISK)
    first, second, _, also, other, _, where = said(store)
    assert first == "t waits for disk at key x."
    assert second == "It is the first in line, and it has waited for 0.0 s."
    assert also == "It needs a permit of api together with that one."
    assert other == "api has a free permit: 0 of 1 in use."
    assert where == "Its message is parked in the store."
    hold(store, "b:1", API)
    assert said(store)[4] == "api has no free permit: 1 of 1 in use."
    store.pause("api")
    assert said(store)[4] == "api is paused until it is resumed: 1 of 1 in use."


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_id_is_an_error(store: MemoryStore, empty: str) -> None:
    with pytest.raises(SemaphoreError, match="is empty: give the id of a task"):
        Inspector(store).why(empty)


def test_a_pause_a_weight_and_a_store_that_recovers(store: MemoryStore, clock: Clock) -> None:
    heavy = Claim("api", None, 2, weight=2)
    hold(store, "a:1", heavy)
    park(store, "t:1", heavy)
    store.set_limit(1, "api")
    store.pause("api", 60.0)
    clock.advance(1)
    text = said(store)
    assert "api is paused for another 59.0 s: no new task starts." in text
    assert "It needs 2 permits, but the limit is 1: it waits until that is raised." in text
    assert "Permits in use: 2 of 1; it needs 2." in text
    assert any("was set by an operator" in each for each in text)
    store.epoch = (store.epoch or 0) + 1
    assert any("may have forgotten permits: it admits no task" in each for each in said(store))


def test_a_task_in_transit_and_a_process(store: MemoryStore) -> None:
    hold(store, "a:1")
    wait(store, "t:1")
    assert said(store)[-1] == IN_TRANSIT
    store.ask(SESSION)
    wait(store, "web/17:1", kind=Kind.BLOCK, session=SESSION)
    assert said(store, "web/17")[-1] == "It is no task, but a process that waits in a Semaphore."


def test_a_granted_task_is_on_its_way(store: MemoryStore, clock: Clock) -> None:
    store.ask(SESSION)
    hold(store, "a:1")
    ticket = wait(store, "t:1", session=SESSION)
    store.release("a:1", [API])
    clock.advance(0.5)
    view = Inspector(store).why("t")
    assert view.state is TaskState.GRANTED
    assert reasons(view) == [
        "t was granted a permit of api.",
        "The permit is kept for it for another 1.5 s.",
        "Its message is kept by a worker.",
    ]
    assert told(view) == "\n".join(reasons(view))
    store.release(ticket, [API])
    hold(store, "a:2")
    park(store, "t:2")
    store.release("a:2", [API])
    assert said(store)[-1] == "Its message is on its way from the store to a worker."


def test_a_task_whose_wait_has_ended(store: MemoryStore) -> None:
    hold(store, "a:1")
    park(store, "t:1")
    store.end(["t:1"])
    view = Inspector(store).why("t")
    assert view.state is TaskState.RETURNS
    assert reasons(view)[0] == "t waits no longer: its wait has ended without a permit of api."


def test_each_wait_of_a_task_is_told(store: MemoryStore, clock: Clock) -> None:
    hold(store, "a:1")
    hold(store, "a:2", DISK)
    for holder, claim in (("t:2", API), ("t:1", DISK)):
        clock.advance(1)
        park(store, holder, claim)
    text = said(store)
    assert [each for each in text if "waits for" in each] == [
        "t waits for api.",
        "t waits for disk at key x.",
    ]


def test_a_running_task_and_its_permits(store: MemoryStore, clock: Clock) -> None:
    hold(store, "t:1", Claim("api", None, 3, weight=2), DISK)
    hold(store, "t:x:1", Claim("api", None, 3))  # another task's
    clock.advance(4)
    workers = Workers(t=TaskAt("shop.call", "celery@one", active=True))
    assert said(store, ask=workers) == [
        "t (shop.call) runs at celery@one.",
        "It has held a permit of api for 4.0 s, weight 2; its lease, which is renewed while the task runs, has 26.0 s left.",
        "It has held a permit of disk at key x for 4.0 s; its lease, which is renewed while the task runs, has 26.0 s left.",
    ]
    assert said(store)[::2] == [
        "t holds its permit, but no worker says that it runs.",
        "It has held a permit of disk at key x for 4.0 s; its lease, which is renewed while the task runs, has 26.0 s left.",
    ]
    view = Inspector(store).why("t")
    assert {each.permit.holder for each in view.permits} == {"t:1"}


def test_no_worker_is_suspected_that_was_not_asked(store: MemoryStore) -> None:
    hold(store, "t:1", API)
    view = Inspector(store, ask=lambda _: Replies(problem=NOT_ASKED)).why("t")
    assert told(view) == (
        "t holds its permit; no worker was asked whether it runs.\n"
        "It has held a permit of api for 0.0 s; its lease, which is renewed while the task runs, has 30.0 s left.\n\n"
        "Tasks and workers are not named: no worker was asked (--timeout 0)."
    )


def test_only_the_semaphores_of_its_task_are_looked_at(store: MemoryStore) -> None:
    hold(store, "t:1", API, DISK)
    workers = Workers(t=TaskAt("shop.call", "celery@one", active=True))
    for names, found in (
        (None, ["api", "disk/x"]),
        (frozenset({"disk"}), ["disk/x"]),
        (frozenset[str](), []),
    ):
        view = Inspector(store, ask=workers, semaphores_of={"shop.call": names}.get).why("t")
        assert [each.resource for each in view.permits] == found
        assert view.state is TaskState.RUNS
    assert reasons(view)[1:] == [
        "It holds no permit: it is not limited, or it has lost its permit."
    ]


def test_a_name_that_is_searched_for_is_not_looked_for_at_each_key(store: MemoryStore) -> None:
    hold(store, "t:1", API, DISK)
    assert Inspector(store).why("t").state is TaskState.RUNS
    assert Inspector(store).why("t", everywhere=False).state is TaskState.UNKNOWN
    workers = Workers(t=TaskAt("shop.call", "celery@one", active=True))
    finder = Inspector(store, ask=workers, semaphores_of={"shop.call": frozenset({"disk"})}.get)
    assert [each.resource for each in finder.why("t", everywhere=False).permits] == ["disk/x"]


def test_a_received_task(store: MemoryStore) -> None:
    workers = Workers(t=TaskAt("shop.call", "celery@one", active=False))
    view = Inspector(store, ask=workers, result=lambda _: "FAILURE").why("t")
    assert view.state is TaskState.RECEIVED
    assert reasons(view) == [f"t (shop.call) was received by celery@one, and {IS_RECEIVED}"]


def test_a_prefetched_task(store: MemoryStore) -> None:
    workers = Workers(t=TaskAt("shop.call", "celery@one", active=False, reserved=True))
    view = Inspector(store, ask=workers).why("t")
    assert view.state is TaskState.PREFETCHED
    assert reasons(view) == [
        "t (shop.call) was prefetched by celery@one.",
        BUSY.format("celery@one"),
    ]


def test_an_ended_and_an_unknown_task(store: MemoryStore) -> None:
    view = Inspector(store, result={"t": "SUCCESS"}.get).why("t")
    assert (view.state, view.result) == (TaskState.ENDED, "SUCCESS")
    assert reasons(view) == ["t has ended: its result is SUCCESS."]
    workers = Workers()
    workers.problem = "no worker answered within 1 s"
    view = Inspector(store, ask=workers, result={"t": "SUCCESS"}.get).why("u")
    assert view.state is TaskState.UNKNOWN
    assert told(view) == (
        f"u neither waits for a permit nor holds one.\n{UNKNOWN}\n{WHOLE_ID}\n\n"
        "Tasks and workers are not named: no worker answered within 1 s."
    )


def test_a_shortened_id_is_told_from_a_whole_one(store: MemoryStore) -> None:
    task_id = "6c15a9e6-f05f-4d71-8e68-9bc556023bf1"
    assert WHOLE_ID not in said(store, task_id)
    assert said(store, task_id[:8])[-1] == said(store, task_id[:-1])[-1] == WHOLE_ID
    hold(store, "6c15a9e6:1")  # an id of the sender's choice
    assert WHOLE_ID not in said(store, "6c15a9e6")


def test_an_id_that_would_control_a_terminal_is_escaped(store: MemoryStore) -> None:
    hold(store, "a:1")
    park(store, "\x1b[31m:1")
    assert said(store, "\x1b[31m")[0] == r"'\x1b[31m' waits for api."
    with pytest.raises(SemaphoreError, match="task_id=7 must be a string"):
        Inspector(store).why(7)  # type: ignore[arg-type]
