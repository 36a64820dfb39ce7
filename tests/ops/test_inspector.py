"""What an operator sees and does, on a store whose clock stands still."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.declared_limit import DeclaredLimit
from celery_semaphore.core.key import all_keys_of, resource_name
from celery_semaphore.core.names import process_name, task_id_of
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.snapshot import Snapshot
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.totals import Totals
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import SemaphoreError, UnknownSemaphore
from celery_semaphore.ops import answers, tables
from celery_semaphore.ops.inspector import Inspector
from celery_semaphore.ops.length import length
from celery_semaphore.ops.reader import COUNTED
from celery_semaphore.ops.replies import Replies, TaskAt
from celery_semaphore.ops.text import duration, printable, width
from celery_semaphore.ops.views import KeyView, ResourceView, SemaphoreView
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing import Clock, MemoryStore

LEASE = 30.0
NO_LIMIT_YET = (
    "The store knows no limit yet; the tasks of this app declare 5."
    " It is in force once one of their workers starts, or a task asks for a permit."
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(StoreOptions(lease=LEASE, now=clock))


@pytest.fixture
def inspector(store: MemoryStore) -> Inspector:
    return Inspector(store, declared={"api": 5, "idle": 7, "called": None})


def claims(of: str = "api", key: str | None = None, limit: int = 2, weight: int = 1) -> list[Claim]:
    return [Claim(of, key, limit, weight)]


def hold(store: MemoryStore, holder: str, wanted: list[Claim] | None = None) -> Permit:
    answer = store.acquire(wanted or claims(), holder)
    assert isinstance(answer, Permit), answer
    return answer


def wait(
    store: MemoryStore, holder: str, kind: Kind = Kind.REQUEUE, wanted: list[Claim] | None = None
) -> Ticket:
    answer = store.acquire(wanted or claims(), holder, Wait(kind))
    assert isinstance(answer, Refusal), answer
    assert answer.ticket
    if kind is Kind.PARK:
        store.attach(answer.ticket, wanted or claims(), b"", name=task_id_of(holder))
    return answer.ticket


def test_a_resource_is_saturated_if_the_next_wait_does_not_fit(
    store: MemoryStore, inspector: Inspector
) -> None:
    hold(store, "t1:1")
    assert not inspector.resource("api").saturated
    wait(store, "t2:1", wanted=[Claim("api", None, 2, 2)])
    assert inspector.resource("api").saturated
    wait(store, "t4:1", wanted=[Claim("heavy", None, 2, 3)])
    assert not inspector.resource("heavy").saturated  # it waits for a higher limit
    store.pause("export", None)
    wait(store, "t3:1", wanted=claims("export", "x"))
    assert not inspector.resource("export/x").saturated
    assert not any(view.saturated for view in inspector.semaphores())  # lists know no weights
    hold(store, "t5:1")
    assert {view.semaphore for view in inspector.semaphores() if view.saturated} == {"api"}


def test_a_very_long_name_is_found_by_the_whole_of_it(
    store: MemoryStore, inspector: Inspector
) -> None:
    """What lies beyond its beginning is in the digest only."""
    key, name = "k" * 300 + "7", "n" * 300 + "7"
    at_key, whole = resource_name("export", key), resource_name(name, None)
    hold(store, "t1:1", claims("export", key))
    hold(store, "t2:1", claims(name, "x"))
    assert inspector.search(key) == [at_key]
    assert inspector.search(name) == [whole, f"{whole}/x"]
    assert inspector.search(key[:-1]) == inspector.search("7" + key) == []


def test_semaphores_are_summed_up(store: MemoryStore, inspector: Inspector) -> None:
    for n, key in enumerate("xxy"):
        hold(store, f"t{n}:1", claims("export", key))
    wait(store, "t9:1", wanted=claims("export", "x"))
    store.set_limit(4, "export/y")
    store.set_limit(0, "paused")
    assert inspector.semaphores() == [
        SemaphoreView("api", "api", (), (), keys=0, occupied=0, waiting=0, own_limit=5),
        SemaphoreView("called", "called", (), (), keys=0, occupied=0, waiting=0),
        SemaphoreView(
            "export",
            "export",
            (2, 4),
            (4,),
            keys=2,
            occupied=3,
            waiting=1,
            oldest_wait=0.0,
            saturated=True,
            saturated_keys=1,
        ),
        SemaphoreView("idle", "idle", (), (), keys=0, occupied=0, waiting=0, own_limit=7),
        SemaphoreView("paused", "paused", (0,), (0,), keys=0, occupied=0, waiting=0),
    ]


def test_a_resource_tells_who_holds_and_who_waits(
    store: MemoryStore, inspector: Inspector, clock: Clock
) -> None:
    hold(store, "t0:1")
    clock.advance(4)
    store.release("t0:1", claims())
    clock.advance(3)
    hold(store, "t1:1")
    hold(store, "web/17:2")
    for n in range(3, 6):
        wait(store, f"t{n}:1", Kind.PARK if n == 3 else Kind.REQUEUE)
        clock.advance(1)
    seen = inspector.resource("api", waiters=2)
    assert (seen.limit, seen.occupied, seen.waiting, seen.mean_held) == (2, 2, 3, 4.0)
    permits = [(p.task_id, p.held_for, p.lease_left, p.granted) for p in seen.permits]
    assert permits == [("t1", 3.0, 27.0, False), ("web/17", 3.0, 27.0, False)]
    waiters = [(w.position, w.task_id, w.kind, w.waited, w.expected) for w in seen.waiters]
    assert waiters == [(0, "t3", "park", 3.0, 2.0), (1, "t4", "requeue", 2.0, 4.0)]
    assert "… and 1 more waiting" in tables.resource(seen)
    assert "more permits" not in tables.resource(seen)
    many = tables.resource(replace(seen, permits=seen.permits[:1] * 52))
    assert many.count(seen.permits[0].task_id) == 50
    assert "… and 2 more permits" in many


def test_who_declared_the_limit_in_force_is_told(store: MemoryStore, inspector: Inspector) -> None:
    store.declare({"api": 5}, "worker@b")
    seen = inspector.resource("api")
    assert (seen.limit, seen.declared) == (5, DeclaredLimit(5, "worker@b"))
    assert tables.resource(seen).endswith(
        "The limit in force is the smallest declared last: 5, by worker@b."
    )
    store.set_limit(7, "api")
    seen = inspector.resource("api")
    assert (seen.limit, seen.set_by_operator, seen.declared) == (
        7,
        True,
        DeclaredLimit(5, "worker@b"),
    )
    assert tables.resource(seen).endswith(
        "The limit in force was set by an operator; the smallest declared last is 5, by worker@b."
    )
    hold(store, "t:1", claims(limit=2))
    api = next(each for each in inspector.semaphores() if each.semaphore == "api")
    assert (api.limits, api.declared) == ((7,), DeclaredLimit(2, process_name()))


def test_where_each_one_waits(store: MemoryStore, clock: Clock) -> None:
    """And when its turn is expected; not of one that its worker, or its broker, has to bring first."""
    hold(store, "t0:1", claims(limit=1))
    clock.advance(2)
    store.release("t0:1", claims(limit=1))
    hold(store, "t1:1", claims(limit=1))
    store.ask("s1")
    for n, how in enumerate(
        [
            Wait(Kind.REQUEUE, session="s1"),
            Wait(Kind.PARK),
            Wait(Kind.BLOCK, session="s1"),
            Wait(Kind.REQUEUE, session="asleep"),
            Wait(Kind.REQUEUE, shortest=60.0),  # published with a delay
        ]
    ):
        answer = store.acquire(claims(limit=1), f"w{n}:1", how)
        assert isinstance(answer, Refusal)
        if how.kind is Kind.PARK:
            assert answer.ticket
            store.attach(answer.ticket, claims(limit=1), b"")
        clock.advance(0.25)
    heard = Replies(
        {
            "w0": [TaskAt("hold", "k1", active=False), TaskAt("hold", "k0", active=True)],
            "w3": [TaskAt("hold", "k3", active=False)],
        }
    )
    seen = Inspector(store, ask=lambda _: heard).resource("api")
    assert [(w.task_id, w.where, w.worker, w.expected) for w in seen.waiters] == [
        ("w0", "kept", "k1", 2.0),
        ("w1", "parked", None, 4.0),
        ("w2", "calling", None, 6.0),
        ("w3", "in transit", None, None),
        ("w4", "in transit", None, 59.75),
    ]
    assert tables.IN_TRANSIT in tables.resource(seen)
    assert tables.IN_TRANSIT not in tables.resource(replace(seen, waiters=seen.waiters[:3]))
    clock.advance(60)
    late = ResourceView.of(replace(store.snapshot("api", 5), mean_held=LEASE * 9), None).waiters[4]
    assert (late.task_id, late.expected) == ("w4", None)  # it should have been here
    store.sleep("s1")
    seen = Inspector(store, ask=lambda _: heard).resource("api")
    assert [w.where for w in seen.waiters] == ["in transit", "parked", *["in transit"] * 3]
    assert seen.waiters[0].worker is None


def test_no_turn_is_predicted_once_each_permit_is_held_for_much_longer_than_usual(
    store: MemoryStore, inspector: Inspector, clock: Clock
) -> None:
    hold(store, "t0:1")
    clock.advance(1)
    store.release("t0:1", claims())
    hold(store, "t1:1")
    clock.advance(2)
    hold(store, "t2:1")
    wait(store, "t3:1", Kind.PARK)
    clock.advance(1)
    seen = inspector.resource("api")
    assert (seen.mean_held, seen.waiters[0].expected) == (1.0, 0.5)  # t2's is held as usual
    why = (
        "When a turn comes is unknown: each permit in use has been held for more than twice as long as usual"
        " (1.0 s)."
    )
    assert why not in tables.resource(seen)
    clock.advance(1)
    assert inspector.resource("api").waiters[0].expected is not None
    clock.advance(0.1)
    seen = inspector.resource("api")
    assert seen.waiters[0].expected is None
    assert tables.resource(seen).endswith(f"\n\n{why}")
    store.pause("api")
    assert why not in tables.resource(inspector.resource("api"))


def test_nobody_knows_when_a_pause_ends(store: MemoryStore, inspector: Inspector) -> None:
    hold(store, "t1:1")
    hold(store, "t2:1")
    wait(store, "t3:1")
    assert inspector.resource("api").waiters[0].expected is None  # there is no history yet
    inspector.pause("api")
    store.release("t1:1", claims())
    seen = inspector.resource("api")
    assert (seen.limit, seen.set_by_operator, seen.waiters[0].expected) == (2, False, None)


def test_who_weighs_more_than_the_limit_waits_for_ever(
    store: MemoryStore, inspector: Inspector
) -> None:
    heavy = claims(limit=3, weight=3)
    hold(store, "t1:1", heavy)
    wait(store, "t2:1", wanted=heavy)
    inspector.set_limit("api", 2)
    waiter = inspector.resource("api").waiters[0]
    assert (waiter.unsatisfiable, waiter.expected) == (True, None)
    assert "never" in tables.resource(inspector.resource("api"))
    heavy = claims("export", "x", limit=3, weight=3)
    hold(store, "t3:1", heavy)
    wait(store, "t4:1", Kind.PARK, heavy)
    wait(store, "t5:1", wanted=claims("export", "x", limit=3))
    store.set_limit(2, "export")
    store.release("t3:1", heavy)  # nobody looks at the line before there is room
    assert [view.unsatisfiable for view in inspector.semaphores() if view.waiting] == [0, 1]
    assert [(view.waiting, view.unsatisfiable) for view in inspector.keys("export")] == [(2, 1)]
    assert "  2 (1 too heavy)  " in tables.keys(inspector.keys("export"), 9)
    whole = tables.whole(inspector.resource("export"), inspector.keys("export"), 9)
    assert whole.startswith("export: 0 in use, 2 waiting (1 too heavy), the oldest for 0.0 s, all")
    assert inspector.resource("export/x").unsatisfiable == 1
    only = tables.resource(inspector.resource("export/x"))
    assert only.startswith("export at key x: 0 of 2 (set) in use, 2 waiting (1 too heavy), the old")


def test_a_grant_is_shown_with_its_task(store: MemoryStore, inspector: Inspector) -> None:
    hold(store, "t1:1", claims(limit=1))
    ticket = wait(store, "t2:1", Kind.PARK, claims(limit=1))
    store.release("t1:1", claims(limit=1))
    (permit,) = inspector.resource("api").permits
    assert (permit.holder, permit.task_id, permit.granted) == (ticket.nonce, "t2", True)
    with pytest.raises(SemaphoreError, match="t2, which is on its way"):
        inspector.take_away("api", "t2")  # its message would be gone with its ticket
    assert store.take(frozenset(["api"]))


def test_workers_name_tasks(store: MemoryStore) -> None:
    asked: list[Collection[str]] = []

    def ask(ids: Collection[str]) -> Replies:
        asked.append(ids)
        # Another delivery of t1 waits for its countdown on w2.
        tasks = {"t1": [TaskAt("shop.call", "w2", active=False), TaskAt("shop.call", "w1", True)]}
        return Replies(tasks | {"t3": [TaskAt("shop.call", "w2", active=False)]})

    inspector = Inspector(store, ask=ask)
    for n in (1, 2):
        hold(store, f"t{n}:1")
    wait(store, "t3:1")
    seen = inspector.resource("api")
    assert asked == [{"t1", "t2", "t3"}]
    assert [(p.task, p.worker) for p in seen.permits] == [("shop.call", "w1"), (None, None)]
    assert seen.waiters[0].task == "shop.call"


def test_two_deliveries_of_a_task_may_run_on_two_workers(store: MemoryStore) -> None:
    at = [TaskAt("shop.call", worker, active=True) for worker in ("w2", "w1", "w2")]
    inspector = Inspector(store, ask=lambda _: Replies({"t1": at}))
    for n in (1, 2):
        hold(store, f"t1:{n}")
    assert [p.worker for p in inspector.resource("api").permits] == ["w1, w2"] * 2


def test_nobody_is_asked_about_nobody(store: MemoryStore) -> None:
    inspector = Inspector(store, declared={"api": 5}, ask=lambda _: pytest.fail("asked"))
    assert inspector.resource("api").own_limit == 5


@pytest.mark.parametrize("name", ["aip", "exprt", "zzz", ""])
def test_unknown_semaphores(store: MemoryStore, inspector: Inspector, name: str) -> None:
    hold(store, "t1:1", claims("export", "7"))
    store.set_limit(1, "limited")
    hints = {"aip": "did you mean 'api'", "exprt": "did you mean 'export'"}
    hint = hints.get(name, "known semaphores: 'api', 'called', 'export', 'idle', 'limited'")
    with pytest.raises(UnknownSemaphore, match=hint):
        inspector.resource(name)


def test_keys(store: MemoryStore, inspector: Inspector) -> None:
    for n, key in enumerate("xyy"):
        hold(store, f"t{n}:1", claims("export", key))
    hold(store, "t9:1", claims("export2", "z"))
    wait(store, "t8:1", wanted=claims("export", "y"))
    assert [(v.key, v.occupied, v.waiting) for v in inspector.keys("export")] == [
        ("y", 2, 1),
        ("x", 1, 0),
    ]
    assert (inspector.waiting("export"), inspector.waiting("export/x")) == (1, 0)
    keyed = "each key has a line of its own: name it"
    with pytest.raises(SemaphoreError, match=f"t8 does not wait here.*; {keyed}"):
        inspector.tasks("export", ["t8"])
    with pytest.raises(SemaphoreError, match=f"t0 has no permit; {keyed}"):
        inspector.permit_of("export", "t0")


class CountingStore(MemoryStore):
    """Counts the resources of which it is asked for a snapshot, and the calls for totals."""

    def __init__(self, options: StoreOptions) -> None:
        super().__init__(options)
        self.seen, self.counted = 0, 0

    def snapshots(self, resources: Iterable[str]) -> Iterator[Snapshot]:
        for each in super().snapshots(resources):
            self.seen += 1
            yield each

    def totals(self, resources: Sequence[str]) -> list[Totals]:
        self.counted += 1
        return super().totals(resources)


def test_a_list_of_many_keys_takes_few_calls() -> None:
    """Each page that an operator has open repeats it, and a snapshot of each key would be a call of its own."""
    store = CountingStore(StoreOptions(lease=LEASE))
    for n in range(2 * COUNTED + 1):
        hold(store, f"t{n}:1", claims("export", str(n)))
    inspector = Inspector(store)
    (view,) = inspector.semaphores()
    assert (view.keys, view.occupied, store.counted) == (2 * COUNTED + 1, 2 * COUNTED + 1, 3)
    assert store.seen == 2  # the semaphore without a key, and a key that is not in use
    assert len(inspector.keys("export")) == 2 * COUNTED + 1
    assert (store.counted, store.seen) == (6, 2)


def test_the_limit_of_one_key_is_not_that_of_all(store: MemoryStore) -> None:
    inspector = Inspector(store, declared={"export": 2})

    def limits() -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Those in force, and those of them that were set."""
        (view,) = inspector.semaphores()
        return view.limits, view.limits_set

    store.set_limit(1, "export/y")
    assert limits() == ((1,), (1,)), "while no key is in use"
    store.declare({all_keys_of("export"): 2}, "worker@b")
    assert limits() == ((1, 2), (1,)), "with what a worker declares for all keys"
    hold(store, "t1:1", claims("export", "y"))
    assert limits() == ((1, 2), (1,)), "that key only"
    hold(store, "t2:1", claims("export", "x", limit=3))
    assert limits() == ((1, 2), (1,)), "what is declared decides, not the code"
    store.release("t2:1", claims("export", "x"))
    store.set_limit(5, "export")
    assert limits() == ((1, 5), (1, 5))


def test_a_limit_of_zero_is_no_limit(store: MemoryStore, inspector: Inspector) -> None:
    with pytest.raises(SemaphoreError, match="'api': a limit of 0 admits no task; pause it"):
        inspector.set_limit("api", 0)
    assert store.decisions() == {}


def test_limits_and_pauses(store: MemoryStore, inspector: Inspector) -> None:
    inspector.set_limit("api", 3)
    assert inspector.resume("api") is False
    assert (inspector.pause("api"), inspector.pause("api")) == (True, False)
    assert inspector.is_paused("api")
    inspector.set_limit("api", 4)
    seen = inspector.resource("api")
    assert (seen.limit, seen.set_by_operator, seen.paused, seen.pause_left) == (4, True, True, None)
    assert answers.in_force(seen, {}) == (
        "api: the limit is 4 (set), and it is paused until it is resumed: no new task starts."
    )
    assert (inspector.resume("api"), inspector.resume("api")) == (True, False)
    seen = inspector.resource("api")
    assert (seen.limit, seen.paused) == (4, False)


def test_a_pause_that_ends_by_itself(
    store: MemoryStore, inspector: Inspector, clock: Clock
) -> None:
    inspector.pause("api", 600.0)
    clock.advance(60.0)
    seen = inspector.resource("api")
    assert (seen.paused, seen.pause_left) == (True, 540.0)
    assert tables.resource(seen).endswith("; paused for another 9 min\n\n" + NO_LIMIT_YET)
    (listed,) = [each for each in inspector.semaphores() if each.semaphore == "api"]
    assert (listed.paused, listed.pause_left) == (True, 540.0)
    clock.advance(540.0)
    assert not inspector.resource("api").paused
    assert inspector.resume("api") is False


def test_a_key_is_paused_with_its_semaphore(store: MemoryStore, inspector: Inspector) -> None:
    store.set_limit(5, "api/7")
    store.pause("api2")
    inspector.pause("api")
    refusal = store.acquire(claims("api", "7"), "t:2")
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.PAUSED
    names = ["api", "api/7", "api/8"]
    assert [inspector.is_paused_with_its_semaphore(name) for name in names] == [False, True, True]
    for key in ("7", "8"):
        stays = rf"at key '{key}' stays paused with all of semaphore 'api': resume that\."
        with pytest.raises(SemaphoreError, match=stays):
            inspector.resume(f"api/{key}")
    assert inspector.resume("api") is True
    hold(store, "t:1", claims("api", "7"))
    assert inspector.own_limits("api") == {"7": 5}


def test_keys_with_pauses_of_their_own_stay_paused(
    store: MemoryStore, inspector: Inspector
) -> None:
    for at in ("api/7", "api/10", "api", "api2/7"):
        inspector.pause(at)
    with pytest.raises(SemaphoreError, match="Nothing changed"):
        inspector.resume("api/7")
    assert inspector.resume("api") is True
    assert inspector.paused_keys("api") == ["10", "7"]
    assert inspector.paused_keys("api/7") == []
    assert answers.stays_paused(["10", "7"]) == ("2 keys have their own pauses, which stay: 10, 7.")
    many = answers.stays_paused([str(n) for n in range(12)])
    assert many.endswith(": 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more.")
    (view,) = [each for each in inspector.semaphores() if each.semaphore == "api"]
    assert (view.paused, view.paused_keys) == (False, 2)
    assert inspector.resume("api/7") is True
    assert inspector.paused_keys("api") == ["10"]
    assert answers.stays_paused(["10"]) == "1 key has its own pause, which stays: 10."


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("10m", 600.0), (" 1.5h ", 5400.0), ("2 d", 172800.0)]
)
def test_the_length_of_a_pause(text: str, seconds: float) -> None:
    assert length(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "0s", "-1m", "1w", "1h30m", "9" * 99 + "d", "²s"])
def test_what_is_no_length(text: str) -> None:
    with pytest.raises(SemaphoreError, match="such as 10m"):
        length(text)


def test_a_store_that_lost_the_declared_limit(store: MemoryStore) -> None:
    hold(store, "t:1")
    seen = [replace(each, limit=None) for each in store.totals(["api"])]
    view = SemaphoreView.of("api", seen, {}, (), 5)
    assert (view.limits, view.own_limit) == ((), 5)


def test_the_limits_that_were_set_are_marked(store: MemoryStore, inspector: Inspector) -> None:
    store.set_limit(1, "api/7")
    store.set_limit(3, "idle")
    hold(store, "t1:1", claims("api", "8"))
    rows = dict(
        line.split(maxsplit=1) for line in tables.semaphores(inspector.semaphores()).splitlines()
    )
    assert rows["api"].startswith("1 (set), 2  ")
    assert rows["idle"].startswith("3 (set)  ")


@pytest.mark.parametrize(
    ("own", "limit", "said"),
    [
        ({}, 0, ""),
        ({"7": 0}, 0, ""),
        (
            {"7": 5, "\x1b": 2, "8": 0},
            0,
            "These keys have their own limits, which stay in force: 7 (5), '\\x1b' (2).",
        ),
        (
            {f"{n:02}": 1 for n in range(12)},
            None,
            "force: " + ", ".join(f"{n:02} (1)" for n in range(10)) + " and 2 more.",
        ),
    ],
)
def test_keys_where_another_limit_is_in_force(
    own: dict[str, int], limit: int | None, said: str
) -> None:
    assert answers.excepted(own, limit).endswith(said)
    assert bool(answers.excepted(own, limit)) == bool(said)


@pytest.mark.parametrize("long", ["x" * 500, "名" * 100, "a" + "é" * 200])
def test_a_long_key_may_be_given_as_it_is_shown(
    store: MemoryStore, inspector: Inspector, long: str
) -> None:
    hold(store, "t1:1", claims("export", long))
    (view,) = inspector.keys("export")
    assert view.key is not None
    for key in (view.key, long):
        assert inspector.find("export", key) == view.resource == resource_name("export", long)
    assert inspector.resource(view.resource).occupied == 1
    inspector.take_away(view.resource, "t1")
    assert not list(store.resources())
    with pytest.raises(SemaphoreError, match="must be given in full"):
        inspector.find("export", view.key)
    inspector.set_limit(inspector.find("export", long, create=True), 3)
    assert inspector.find("export", view.key) == view.resource, "it is limited"
    hold(store, "t2:1", claims("export", long))
    assert inspector.resource(view.resource).limit == 3


def test_a_name_that_is_not_known_is_found_only_to_be_made(
    store: MemoryStore, inspector: Inspector
) -> None:
    """Else a misspelt one would stay in the list, and be suggested for the next."""
    for key in (None, "7"):
        with pytest.raises(UnknownSemaphore, match="did you mean 'api'"):
            inspector.find("apii", key)
    assert inspector.find("apii", create=True) == "apii"
    assert inspector.find("apii", "7", create=True) == "apii/7"
    assert [view.semaphore for view in inspector.semaphores()] == ["api", "called", "idle"]


def test_the_oldest_wait_is_told(store: MemoryStore, inspector: Inspector, clock: Clock) -> None:
    for key, waits in (("x", 2), ("y", 1), ("z", 0)):
        hold(store, f"h{key}:1", claims("export", key, limit=1))
        for n in range(waits):
            clock.advance(9)
            wait(store, f"w{key}{n}:1", wanted=claims("export", key, limit=1))
    oldest = {view.semaphore: view.oldest_wait for view in inspector.semaphores()}
    assert oldest == {"api": None, "called": None, "export": 18, "idle": None}
    keys = inspector.keys("export")
    assert {view.key: view.oldest_wait for view in keys} == {"x": 18, "y": 0, "z": None}
    assert inspector.resource("export/x").oldest_wait == 18
    whole = inspector.resource("export").with_keys(keys)
    assert (whole.occupied, whole.waiting, whole.oldest_wait) == (3, 3, 18)


def test_the_nearest_key(store: MemoryStore, inspector: Inspector) -> None:
    hold(store, "t1:1", claims("export", "tenant-7"))
    hold(store, "t2:1", claims("api", "tenant-8"))
    assert inspector.nearest_key("export/tennant-8") == "tenant-7"
    assert inspector.nearest_key("export/tenant-7") is None
    assert inspector.nearest_key("export/q") is None


def test_a_long_semaphore_is_one_with_its_declaration(store: MemoryStore) -> None:
    long = "s" * 200
    inspector = Inspector(store, declared={long: 2})
    (shown,) = inspector.semaphores()
    assert (shown.resource, shown.occupied, shown.own_limit) == (resource_name(long, None), 0, 2)
    assert inspector.find(shown.semaphore) == shown.resource
    hold(store, "t1:1", claims(long))
    assert [view.occupied for view in inspector.semaphores()] == [1]
    assert inspector.find(shown.semaphore, "7") == f"{shown.resource}/7"
    inspector.check(f"{shown.resource}/7")


def test_a_key_that_spells_what_is_shown_of_another_one(
    store: MemoryStore, inspector: Inspector
) -> None:
    long = "x" * 500
    hold(store, "victim:1", claims("export", long))
    (victim,) = inspector.keys("export")
    assert victim.key is not None
    hold(store, "mimic:1", claims("export", victim.key))
    with pytest.raises(SemaphoreError, match="several are shown like this"):
        inspector.find("export", victim.key)
    assert inspector.find("export", long) == victim.resource
    assert [p.task_id for p in inspector.resource(victim.resource).permits] == ["victim"]
    mimic = resource_name("export", victim.key)
    assert [p.task_id for p in inspector.resource(mimic).permits] == ["mimic"]
    inspector.pause(mimic)
    assert list(store.decisions()) == [mimic]


def test_release(store: MemoryStore, inspector: Inspector) -> None:
    first, second = hold(store, "t1:1"), hold(store, "t1:2")
    with pytest.raises(SemaphoreError, match="several: name one of t1:1, t1:2"):
        inspector.take_away("api", "t1")
    assert inspector.take_away("api", "t1:1").task_id == "t1"
    assert store.renew([first, second]) == {"t1:1": Renewal.LOST, "t1:2": Renewal.OK}
    with pytest.raises(SemaphoreError, match="t1:1 has no permit"):
        inspector.take_away("api", "t1:1")


def test_one_who_holds_several_loses_all(store: MemoryStore, inspector: Inspector) -> None:
    both = [*claims("api"), *claims("gpu")]
    permit = hold(store, "t1:1", both)
    inspector.take_away("api", "t1")
    assert store.snapshot("gpu").occupied == 1
    assert store.renew([permit]) == {"t1:1": Renewal.LOST}
    assert store.snapshot("gpu").occupied == 0


def test_who_is_far_behind_in_the_line_can_be_dropped(store: MemoryStore) -> None:
    hold(store, "t1:1", claims(limit=1))
    for n in range(2001):
        wait(store, f"w{n:04}:1", wanted=claims(limit=1))
    inspector = Inspector(store, revoke=lambda ids: [f"w1 revoked {ids}"])
    assert [each.position for each in inspector.drop("api", ["w2000", "w1000"])] == [2000, 1000]
    with pytest.raises(SemaphoreError, match="w2001 does not wait"):
        inspector.drop("api", ["w2001"])
    assert inspector.waiting("api") == 2001


def test_waiting_tasks_go_next(store: MemoryStore, inspector: Inspector) -> None:
    hold(store, "t1:1", claims(limit=1))
    for n in range(4):
        wait(store, f"w{n}:1", Kind.PARK, claims(limit=1))
    promoted = inspector.promote("api", ["w3", "w2"])
    assert [(view.task_id, view.position) for view in promoted] == [("w3", 3), ("w2", 2)]
    line = inspector.resource("api").waiters
    assert [view.task_id for view in line] == ["w2", "w3", "w0", "w1"]


def test_what_is_not_in_line_cannot_go_next(store: MemoryStore, inspector: Inspector) -> None:
    hold(store, "t1:1", claims(limit=1))
    for n, kind in enumerate([Kind.PARK, Kind.REQUEUE, Kind.REQUEUE, Kind.PARK]):
        wait(store, f"w{n}:1", kind, claims(limit=1))
    not_in_line = "'api': not in line, but in transit or granted a permit: w"
    with pytest.raises(SemaphoreError, match=f"{not_in_line}2\\.$"):
        inspector.promote("api", ["w2"])
    with pytest.raises(SemaphoreError, match=f"{not_in_line}2, w1. The others run next\\.$"):
        inspector.promote("api", ["w2", "w3", "w1"])
    line = inspector.resource("api").waiters
    assert [view.task_id for view in line] == ["w3", "w0", "w1", "w2"]


def test_who_does_not_wait_cannot_go_next(store: MemoryStore, inspector: Inspector) -> None:
    hold(store, "t1:1", claims(limit=1))
    wait(store, "t2:1", wanted=claims(limit=1))
    wait(store, "web/17:1", Kind.BLOCK, claims(limit=1))
    with pytest.raises(SemaphoreError, match="'api': t1 does not wait"):
        inspector.promote("api", ["t2", "t1"])
    with pytest.raises(SemaphoreError, match="web/17 is not a task"):
        inspector.promote("api", ["t2", "web/17"])
    assert [view.priority for view in inspector.resource("api").waiters] == [0, 0]


def test_dropping_is_revoking(store: MemoryStore) -> None:
    revoked: list[str] = []

    def revoke(ids: Collection[str]) -> list[str]:
        revoked.extend(ids)
        return ["w1"]

    inspector = Inspector(store, revoke=revoke)
    hold(store, "t1:1")
    hold(store, "t2:1")
    wait(store, "t3:1", Kind.PARK)
    wait(store, "web/17:1", Kind.BLOCK)
    for task_id, why in {"t1": "does not wait", "web/17": "is not a task"}.items():
        with pytest.raises(SemaphoreError, match=why):
            inspector.drop("api", ["t3", task_id])
    assert revoked == []
    inspector.drop("api", ["t3"])
    assert revoked == ["t3"]
    with pytest.raises(SemaphoreError, match="no worker answered, so nothing was dropped"):
        Inspector(store).drop("api", ["t3"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a b", "a b"), ("", "''"), ("\x1b[2J", r"'\x1b[2J'"), ("\udc80", r"'\udc80'"), ("名", "名")],
)
def test_a_key_cannot_speak_to_a_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_task_and_a_worker_cannot_either(store: MemoryStore) -> None:
    at = [TaskAt("\x1b[2J", "\x1b]0;", active=True)]
    inspector = Inspector(store, ask=lambda _: Replies({"t1": at, "t2": at}))
    hold(store, "t1:1", claims(limit=1))
    wait(store, "t2:1", wanted=claims(limit=1))
    assert "\x1b" not in tables.resource(inspector.resource("api"))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (0.04, "0.0 s"), (119.9, "119.9 s"), (120, "2 min"), (7200, "2.0 h")],
)
def test_durations(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


def test_purging_ends_all_tasks_that_wait(store: MemoryStore) -> None:
    """At all keys; those that workers keep in batches, and not those who wait outside tasks."""
    told: list[Collection[str]] = []

    def revoke(ids: Collection[str]) -> list[str]:
        told.append(ids)
        return ["w1"] if len(told) < 3 else []

    for key, count in (("x", 1500), ("y", 900)):
        hold(store, f"t{key}:1", claims("export", key, limit=1))
        for n in range(count):
            wait(store, f"{key}{n}:1", wanted=claims("export", key, limit=1))
    wait(store, "web/17:1", Kind.BLOCK, claims("export", "x", limit=1))
    store.acquire(claims("export", "x", limit=1), "big:1", Wait(Kind.PARK))  # not in the store
    inspector = Inspector(store, revoke=revoke, purge=lambda name: [f"parked at {name}"])
    done = inspector.purge("export")
    assert [len(ids) for ids in told] == [1000, 1000, 401]
    assert done.ended == ["parked at export/x", "parked at export/y"]
    assert len(set(done.revoked)) == len(done.revoked) == 2000
    assert "big" in done.revoked
    assert (done.unheard, done.calls) == (401, 1)
    assert "web/17" not in {task_id for ids in told for task_id in ids}
    text = tables.purged(done).splitlines()
    assert [line.partition(" ")[0] for line in text] == ["Purged", "Revoked", "Still", "Still"]


def test_before_the_first_task_returns_the_store_recovers_too(
    store: MemoryStore, inspector: Inspector
) -> None:
    hold(store, "t:1", claims(limit=3))
    store.forget()
    assert {each.recovering for each in inspector.semaphores()} == {LEASE * 2 / 3}


def test_after_the_store_forgot_nobody_is_admitted_for_a_while(
    store: MemoryStore, inspector: Inspector, clock: Clock
) -> None:
    for n in range(3):
        hold(store, f"t{n}:1", claims(limit=3))
    clock.advance(6)
    store.release("t0:1", claims(limit=3), None)
    store.forget()
    wait(store, "t3:1", wanted=claims(limit=3))
    clock.advance(LEASE / 3)
    seen = inspector.resource("api")
    (view,) = [each for each in inspector.semaphores() if each.semaphore == "api"]
    assert seen.recovering == view.recovering == LEASE / 3
    assert {each.recovering for each in inspector.semaphores()} == {
        LEASE / 3
    }  # also where nothing is in use
    why = "The store was restarted or replaced, and may have forgotten permits: it admits no task for 10.0 s."
    assert tables.resource(seen).splitlines()[4] == why
    assert tables.semaphores([view]).splitlines()[-1] == why
    (counted,) = store.totals(["api"])
    whole = tables.whole(replace(seen, for_each_key=True), [KeyView.of(counted, None)], most=9)
    assert why in whole.splitlines()
    (waiter,) = ResourceView.of(replace(store.snapshot("api", 1), mean_held=6.0), None).waiters
    assert waiter.expected == LEASE / 3 + 2
    clock.advance(LEASE / 3)
    assert {each.recovering for each in inspector.semaphores()} == {None}
    assert inspector.resource("api").recovering is None
    assert "restarted" not in tables.resource(inspector.resource("api"))
    assert "restarted" not in tables.semaphores(inspector.semaphores())


@pytest.mark.parametrize(
    ("text", "columns"), [("api", 3), ("\u6771\u4eac", 4), ("e\u0301", 1), ("\U0001f680 a", 4)]
)
def test_a_table_is_as_wide_as_a_terminal_shows_it(text: str, columns: int) -> None:
    assert width(text) == columns
    first, second = tables.table(["A", "B"], [[text, "x"]]).splitlines()
    assert width(first.partition("B")[0]) == width(second.partition("x")[0])
