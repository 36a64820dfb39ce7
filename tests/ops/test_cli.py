"""``celery -A app semaphore``, as its user calls it."""

from __future__ import annotations

import json
import re
from contextlib import closing
from functools import partial
from typing import Any

import celery
import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.key import all_keys_of
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.ops.reasons import IS_RECEIVED
from tests.support.process import free_port, wait_until
from tests.support.variants import also
from tests.worker.conftest import Site

from .conftest import Command

PARK: dict[str, Any] = {"semaphore_on_saturated": "park"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list"], "SEMAPHORE"),
        (["check"], "Workers can use this store"),
        *also(
            (["show", "one", "--timeout", "0"], "one: 0 of 1 (not in force yet) in use"),
            (["limit", "one", "2"], "one: the limit is 2 (set)."),
            (["purge", "one", "--force"], "Purged 0 parked task(s)."),
        ),
    ],
)
def test_in_an_interpreter_of_its_own(site: Site, words: list[str], said: str) -> None:
    """Most of these tests run where Celery was imported before."""
    assert said in Command(site.env(), forks=False).says(*words)


def test_who_holds_and_who_waits(site: Site, semaphore: Command) -> None:
    worker = site.start(concurrency=2)
    (running,) = site.occupy()
    waiting = [site.send("hold", 0.0)]
    wait_until(lambda: site.waiting() == 1, 20, "one waits")
    waiting.append(site.send("look"))
    wait_until(lambda: site.waiting() == 2, 20, "two wait")

    def named() -> Any:
        """What is shown, once the worker found the time to say which tasks these are."""
        seen = semaphore.json("show", "one")
        return None if seen["note"] else seen

    seen = wait_until(named, 60, "the worker answers")
    assert (seen["limit"], seen["occupied"], seen["waiting"]) == (1, 1, 2)
    (permit,) = seen["permits"]
    assert (permit["task_id"], permit["task"]) == (running.id, "hold")
    assert permit["worker"] == worker.hostname
    assert 0 < permit["lease_left"] <= site.lease
    assert [w["task_id"] for w in seen["waiters"]] == [result.id for result in waiting]
    assert [w["task"] for w in seen["waiters"]] == ["hold", "look"]
    assert [w["where"] for w in seen["waiters"]] == ["kept", "kept"]
    assert [w["worker"] for w in seen["waiters"]] == [worker.hostname] * 2
    text = semaphore.says("show", "one", "--timeout", "0")
    assert re.match(r"one: 1 of 1 in use, 2 waiting, the oldest for [\d.]+ s\n", text)
    assert re.search(rf"\n0 +{waiting[0].id}  - +kept +- +1 ", text)


def test_where_waiting_tasks_lie(site: Site) -> None:
    """As a worker would decide; nothing where the options of the tasks say it."""
    says = f"waiting tasks are parked in {site.store_url}: it is the broker's own server"
    semaphore = Command(site.env({"semaphore_on_saturated": "wait"}))
    assert f"\n\nW{says[1:]}." in semaphore.says("list")
    views = {view["semaphore"]: view["waiting_place"] for view in semaphore.json("list")}
    assert set(views.values()) == {says}
    assert semaphore.json("show", "one", "--timeout", "0")["waiting_place"] == says
    assert f"waiting     {says}" in semaphore.says("check")
    semaphore = Command(site.env({"semaphore_on_saturated": "requeue"}))
    assert {view["waiting_place"] for view in semaphore.json("list")} == {None}
    assert "waiting tasks" not in semaphore.says("check")


@pytest.mark.parametrize("forks", [True, False])
def test_a_purge_of_the_broker_says_what_it_leaves(site: Site, *, forks: bool) -> None:
    purge = Command(site.env(PARK), group="purge", forks=forks)
    assert "parked" not in purge.says("--force")
    worker = site.start(concurrency=2, conf=PARK)
    held = site.occupy()
    site.send("hold", 0.0)
    wait_until(lambda: "is parked" in worker.log(), 20, "it is parked")
    wait_until(lambda: "1 parked task(s) still wait in" in purge.says("--force"), 20, "it is told")
    site.let_go()
    wait_until(lambda: all(each.ready() for each in held), 20, "it has ended")


def test_what_a_worker_has(site: Site) -> None:
    worker = site.start(concurrency=2)
    (running,) = site.occupy()
    site.send("plain")
    waiting = [site.send("hold", 0.0) for _ in range(2)]
    wait_until(lambda: site.waiting() == 2, 20, "they wait")
    inspect = Command(site.env(), group="inspect")

    def answer(*words: str) -> Any:
        """What it says, once it found the time, and has heard the refusals that the store knows already."""
        here = ("--destination", worker.hostname)  # else it waits for others until the timeout
        said = inspect("semaphore", *words, *here, "--timeout", "5", "--json")
        told = json.loads(said.out).get(worker.hostname) if said.code == 0 else None
        known = len(told["waiting"]) + told["more_waiting"] if told else 0
        return told if known == len(waiting) else None

    seen = wait_until(answer, 60, "the worker answers")
    one = [{"semaphore": "one", "key": None, "weight": 1}]
    (permit,) = seen["permits"]
    assert (permit["id"], permit["name"], permit["semaphores"]) == (running.id, "hold", one)
    assert 0 < permit["held_for"] < 120
    assert [each["id"] for each in seen["waiting"]] == [result.id for result in waiting]
    assert [(each["name"], each["semaphores"]) for each in seen["waiting"]] == [("hold", one)] * 2
    assert all(0 <= each["expected_in"] < 60 for each in seen["waiting"])
    assert (seen["more_permits"], seen["more_waiting"]) == (0, 0)
    fewer = wait_until(lambda: answer("1"), 60, "the worker answers")
    assert [each["id"] for each in fewer["waiting"]] == [waiting[0].id]
    assert (fewer["more_permits"], fewer["more_waiting"]) == (0, 1)
    site.store().set_limit(0, "one")
    wait_until(
        lambda: {each["expected_in"] for each in (answer() or seen)["waiting"]} == {None},
        60,
        "nobody knows their turns",
    )


def test_all_semaphores(site: Site, semaphore: Command) -> None:
    """Also those that nobody uses, for the app's tasks declare them."""
    site.lease = 60.0  # nobody renews these permits, and each command takes seconds
    store = site.store()
    for key in ("7", "8", "\x1b[2J"):
        store.acquire([Claim("tenant", key, 2)], f"t{key}:1")
    store.set_limit(3, "idle")
    store.pause("idle")
    lines = semaphore.says("list").splitlines()
    cells = [re.split(" {2,}", line) for line in lines]
    rows = {name: others for name, *others in cells}
    assert rows["SEMAPHORE"] == ["LIMIT", "KEYS", "IN USE", "WAITING", "OLDEST"]
    assert rows["api"] == ["5 (not in force yet)", "-", "0", "0", "-"]
    assert rows["tenant"] == ["2", "3", "3", "0", "-"]
    assert rows["idle"] == ["3 (set), paused", "-", "0", "0", "-"]
    assert {row["semaphore"] for row in semaphore.json("list")} == set(rows) - {"SEMAPHORE"}
    named = semaphore.json("list", "tenant", "idle")
    assert [row["semaphore"] for row in named] == ["idle", "tenant"]
    assert "did you mean 'tenant'?" in semaphore("list", "tenat").err
    store.pause("tenant/9")
    total, _, *keys = semaphore.says("show", "tenant").splitlines()
    assert total == "tenant: 3 in use, 0 waiting, all keys together"
    assert [line.split()[0] for line in keys[1:5]] == [r"'\x1b[2J'", "7", "8", "9"]
    own = ["2", "(not", "in", "force", "yet),"]
    assert keys[4].split()[1:] == [*own, "paused", "0", "0", "-"]  # or nobody would find it again
    assert semaphore.json("show", "tenant", "--key", "7")["occupied"] == 1
    store.close()


def test_the_oldest_wait_and_the_sums(site: Site) -> None:
    site.lease = 60.0  # nobody renews these permits, and each command takes seconds
    semaphore = Command(site.env())
    with closing(site.store()) as store:
        for key, tasks in (("7", 3), ("8", 2)):
            for n in range(tasks):
                store.acquire([Claim("tenant", key, 1)], f"t{key}{n}:1", Wait(Kind.REQUEUE))
        store.acquire([Claim("api", None, 5)], "a:1")
    names = [view["semaphore"] for view in semaphore.json("list", "--sort", "oldest")]
    assert names[0] == "tenant"
    assert names[1:] == sorted(names[1:])
    whole = semaphore.json("show", "tenant", "--timeout", "0")
    assert (whole["occupied"], whole["waiting"]) == (2, 3)
    assert whole["oldest_wait"] == max(key["oldest_wait"] for key in whole["keys"]) > 0
    text = semaphore.says("show", "tenant", "--key", "7", "--timeout", "0")
    assert re.match(r"tenant at key 7: 1 of 1 in use, 2 waiting, the oldest for [\d.]+ s\n", text)
    not_asked = "Tasks and workers are not named: no worker was asked (--timeout 0).\n"
    assert text.endswith(not_asked)
    text = semaphore.says("why", "t70", "--timeout", "0")
    assert text.startswith("t70 holds its permit; no worker was asked whether it runs.\n")
    assert text.endswith(not_asked)


def test_the_key_with_the_oldest_wait_comes_first(site: Site) -> None:
    """More tasks wait at the other."""
    site.lease = 60.0  # nobody renews these permits
    with closing(site.store()) as store:
        for key, tasks in (("8", 2), ("7", 3)):
            for n in range(tasks):
                store.acquire([Claim("tenant", key, 1)], f"t{key}{n}:1", Wait(Kind.REQUEUE))
    show = partial(Command(site.env()).json, "show", "tenant", "--timeout", "0")
    assert [key["key"] for key in show()["keys"]] == ["7", "8"]
    assert [key["key"] for key in show("--sort", "oldest")["keys"]] == ["8", "7"]


def test_a_key_at_which_nothing_is(site: Site) -> None:
    site.lease = 60.0
    semaphore = Command(site.env())
    with closing(site.store()) as store:
        store.acquire([Claim("tenant", "acme", 1)], "t1:1")
    said = semaphore("show", "tenant", "--key", "acne", "--timeout", "0")
    nothing = "no permits in use, nothing waiting, no limit in force"
    here = f"tenant at key acne: {nothing}; the nearest key is acme.\n"
    assert (said.code, said.out, said.err) == (3, "", here)
    said = semaphore("show", "tenant", "--key", "acne", "--timeout", "0", "--json")
    assert (said.code, said.err) == (3, here)
    assert json.loads(said.out)["occupied"] == 0
    semaphore.says("limit", "tenant", "3", "--key", "acne")
    assert "0 of 3 (set) in use" in semaphore.says("show", "tenant", "--key", "acne")
    semaphore.says("limit", "tenant", "--key", "acne", "--clear")
    with closing(site.store()) as store:
        store.declare({all_keys_of("tenant"): 4}, "celery@other")
    said = semaphore("show", "tenant", "--key", "acne", "--timeout", "0")
    nothing = "no permits in use, nothing waiting"
    assert (said.code, said.err) == (
        0,
        f"tenant at key acne: {nothing}; the nearest key is acme.\n",
    )
    assert said.out.startswith("tenant at key acne: 0 of 4 in use, 0 waiting\n")
    assert said.out.endswith("declared last: 4, by celery@other.\n")
    semaphore.says("limit", "tenant", "3")  # also at all keys that nothing knows
    semaphore.says("pause", "tenant")
    said = semaphore("show", "tenant", "--key", "zzz", "--timeout", "0")
    assert (said.code, said.err) == (0, f"tenant at key zzz: {nothing}.\n")
    assert said.out.startswith("tenant at key zzz: 0 of 3 (set) in use")
    semaphore.says("pause", "tenant", "--key", "zzz")
    assert semaphore("show", "tenant", "--key", "zzz").err == ""  # an operator meant it
    semaphore.says("limit", "one", "2")
    said = semaphore("show", "one", "--key", "x")
    none = "Warning: no task of this app uses semaphore one with a key.\n"
    assert (said.code, said.err) == (0, f"one at key x: {nothing}.\n{none}")


def test_also_what_a_worker_would_import(site: Site) -> None:
    imports = {"imports": ["tests.ops.imported"]}
    rows = {row["semaphore"]: row for row in Command(site.env(imports)).json("list")}
    assert (rows["imported"]["limits"], rows["imported"]["own_limit"]) == ([], 3)


def test_limits_are_set_and_cleared(site: Site, semaphore: Command) -> None:
    worker = site.start(concurrency=3)
    assert semaphore.says("limit", "one", "2") == "one: the limit is 2 (set).\n"
    site.occupy(2)
    assert semaphore.says("limit", "one", "--clear") == "one: the limit is 1.\n"
    declared(site, "api", 5)
    paused_until = "and it is paused until it is resumed: no new task starts.\n"
    assert semaphore.says("pause", "api") == f"api: the limit is 5, {paused_until}"
    longer = "Nothing changed: it is already paused for as long, or longer.\n"
    assert semaphore.says("pause", "api") == f"{longer}api: the limit is 5, {paused_until}"
    assert semaphore.says("limit", "api", "6") == f"api: the limit is 6 (set), {paused_until}"
    zero = semaphore("limit", "api", "0")
    assert (zero.code, "pause it" in zero.err) == (1, True)
    paused = site.send("call")
    wait_until(lambda: site.waiting("api") == 1, 20, "it waits")
    wait_until(
        lambda: f"[{paused.id}] waits: semaphore 'api' is paused" in worker.log(),
        20,
        "its worker says why",
    )
    assert semaphore.says("resume", "api") == "Resumed.\napi: the limit is 6 (set).\n"
    assert paused.get(timeout=20)
    assert semaphore.says("resume", "api") == (
        "Nothing changed: it was not paused.\napi: the limit is 6 (set).\n"
    )
    assert semaphore.says("limit", "one", "--clear") == (
        "Nothing changed: no limit was set for this.\none: the limit is 1.\n"
    )


def declared(site: Site, name: str, limit: int) -> None:
    with closing(site.store()) as store:
        wait_until(lambda: store.snapshot(name).limit == limit, 20, "a worker declared it")


def test_a_pause_with_an_end(site: Site, semaphore: Command) -> None:
    """Its parked tasks go on without anybody's command."""
    site.start(concurrency=3, conf=PARK)
    declared(site, "api", 5)
    said = semaphore.says("pause", "api", "--for", "8s")
    assert said.startswith("api: the limit is 5, and it is paused for another ")
    result = site.send("call")
    wait_until(lambda: site.waiting("api") == 1, 20, "it waits")
    assert result.get(timeout=30)
    wrong = semaphore("pause", "api", "--for", "soon")
    assert (wrong.code, "such as 10m" in wrong.err) == (2, True)


def test_a_key_with_a_limit_of_its_own_is_named(site: Site, semaphore: Command) -> None:
    assert (
        semaphore.says("limit", "api", "4", "--key", "7") == "api at key 7: the limit is 4 (set).\n"
    )
    none = "no limit is in force yet; the tasks of this app declare 5"
    said = semaphore("pause", "api", "--key", "8")
    assert said.err == "Warning: no task of this app uses semaphore api with a key.\n"
    assert semaphore("pause", "tenant", "--key", "acme").err == ""
    semaphore.says("pause", "api")
    said = semaphore("pause", "api", "--key", "8", "--for", "5m")
    assert said.out.startswith("Nothing changed: it is already paused for as long, or longer")
    said = semaphore("pause", "api", "--key", "9", "--for", "5m")
    by_itself = (
        r"is paused until it is resumed, this key by itself for another (5 min|\d+\.\d s)\.\n$"
    )
    assert re.search(by_itself, said.out)
    stays = semaphore("resume", "api", "--key", "8")
    assert (stays.code, "stays paused with all of semaphore 'api'" in stays.err) == (1, True)
    typo = semaphore.says("resume", "tenant", "--key", "acne")
    assert typo.startswith("Nothing changed: it was not paused; the nearest key is acme.\n")
    assert semaphore.says("resume", "api") == (
        f"Resumed.\napi: {none}.\n2 keys have their own pauses, which stay: 8, 9.\n"
    )
    assert semaphore.says("resume", "api", "--key", "9").startswith("Resumed.\napi at key 9: ")
    goes_on = "These keys have their own limits, which stay in force: 7 (4).\n"
    assert semaphore.says("limit", "api", "3") == f"api: the limit is 3 (set).\n{goes_on}"
    assert semaphore.says("limit", "api", "4") == "api: the limit is 4 (set).\n"


def test_a_raised_limit_brings_parked_tasks_back(site: Site, semaphore: Command) -> None:
    """The command has no part in that: a worker's sweep finds what it handed on."""
    site.start(concurrency=3, conf=PARK)
    semaphore.says("pause", "api")
    results = [site.send("call") for _ in range(3)]
    wait_until(lambda: site.waiting("api") == 3, 20, "they are parked")
    semaphore.says("resume", "api")
    for result in results:
        assert result.get(timeout=20)


def test_a_permit_is_taken_away(site: Site, semaphore: Command) -> None:
    site.start(concurrency=2)
    (running,) = site.occupy()
    waiting = site.send("hold", 0.1)
    assert semaphore("take-away", "one", running.id, typed="n\n").code == 1
    assert site.waiting() <= 1
    assert site.inside("held") == 1
    said = semaphore.says("take-away", "one", running.id, "--force")
    assert said.startswith(f"Took away the permit of {running.id}, held for ")
    waiting.get(timeout=20)
    assert site.inside("held") == 1, "the first one runs on"
    said_again = semaphore("take-away", "one", running.id)  # it does not even ask
    assert said_again.err == f"Error: semaphore 'one': {running.id} has no permit.\n"


@pytest.mark.parametrize("conf", [{}, PARK])
def test_waiting_tasks_are_dropped(site: Site, semaphore: Command, conf: dict[str, Any]) -> None:
    site.start(concurrency=2, conf=conf)
    site.occupy()
    first, second = (site.send("hold", 0.0, "dropped") for _ in range(2))
    wait_until(lambda: site.waiting() == 2, 20, "they wait")
    assert semaphore.says("drop", "one", first.id, "--force").startswith("Revoked.")
    wait_until(lambda: first.state == "REVOKED", 20, "it is dropped")
    wait_until(lambda: site.waiting() == 1, 20, "only one of them")
    assert second.state == "PENDING"
    assert semaphore("drop", "one", first.id).err.endswith(
        f"{first.id} does not wait here, or did not ask for a permit yet.\n"
    )
    purged, *others = semaphore.says("purge", "one", "-f").splitlines()
    assert purged == f"Purged {len(conf)} parked task(s)."
    assert [line.partition(":")[0] for line in others] == (
        [] if conf else ["Revoked 1 other task(s)"]
    )
    wait_until(lambda: second.state == "REVOKED", 20, "it is purged")
    wait_until(lambda: site.waiting() == 0, 20, "nothing waits")
    assert site.counter.stats("dropped")["tasks"] == {}


@pytest.mark.parametrize("conf", [PARK, *also({})])
def test_a_task_says_why_it_waits(site: Site, semaphore: Command, conf: dict[str, Any]) -> None:
    worker = site.start(concurrency=2, conf=conf)
    (running,) = site.occupy()
    waiting = site.send("hold", 0.0)
    wait_until(lambda: site.waiting() == 1, 20, "it waits")

    def seen(task_id: str, state: str) -> Any:
        """What is shown, once the worker found the time to say which tasks these are."""
        found = json.loads(semaphore("why", task_id, "--json").out)
        return found if found["state"] == state and not found["note"] else None

    found = wait_until(lambda: seen(waiting.id, "waits"), 60, "the worker answers")
    (wait,) = found["waits"]
    (waiter,), (permit,) = wait["at"]["waiters"], wait["at"]["permits"]
    assert (wait["at"]["semaphore"], waiter["where"]) == ("one", "parked" if conf else "kept")
    assert (permit["task_id"], permit["task"]) == (running.id, "hold")
    assert permit["worker"] == worker.hostname
    if not conf:
        assert (found["task"], found["worker"]) == ("hold", worker.hostname)
    found = wait_until(lambda: seen(running.id, "runs"), 60, "the worker answers")
    (held,) = found["permits"]
    assert (held["semaphore"], found["worker"]) == ("one", worker.hostname)
    site.let_go()
    running.get(timeout=20)
    waiting.get(timeout=20)
    found = wait_until(lambda: seen(waiting.id, "ended"), 60, "its result is ready")
    assert found["result"] == "SUCCESS"


def test_a_prefetched_task_says_which_worker_is_busy(site: Site, semaphore: Command) -> None:
    worker = site.start(concurrency=1)
    (running,) = site.occupy()
    waiting = site.send("hold", 0.0)
    wait_until(lambda: worker.log().count("received") == 2, 20, "it has both")
    busy = f"{waiting.id} (hold) was prefetched by {worker.hostname}."
    wait_until(lambda: busy in semaphore("why", waiting.id).out, 60, "the worker answers")
    site.let_go()
    for each in (running, waiting):
        each.get(timeout=20)


@pytest.mark.skipif(
    celery.VERSION < (5, 7),
    reason="Celery before 5.7 does not tell of tasks that wait for their eta",
)
def test_a_task_with_a_countdown_says_which_worker_received_it(
    site: Site, semaphore: Command
) -> None:
    worker = site.start(concurrency=1)
    later = site.send("free", countdown=60)
    wait_until(lambda: "received" in worker.log(), 20, "it has the task")
    received = f"{later.id} (free) was received by {worker.hostname}, and {IS_RECEIVED}"
    wait_until(lambda: received in semaphore("why", later.id).out, 60, "the worker answers")


@pytest.mark.parametrize("conf", [{}, PARK])
def test_a_waiting_task_is_promoted(site: Site, semaphore: Command, conf: dict[str, Any]) -> None:
    site.start(concurrency=2, conf=conf)
    (running,) = site.occupy()
    results = []

    def so_many_wait(number: int) -> bool:
        return site.waiting() == number

    for n in range(3):
        results.append(site.send("hold", 0.1))
        wait_until(partial(so_many_wait, n + 1), 20, "it waits")
    assert semaphore.says("promote", "one", results[2].id) == f"Promoted: {results[2].id}.\n"
    said = semaphore("promote", "one", running.id)
    assert (
        said.err
        == f"Error: semaphore 'one': {running.id} does not wait here, or did not ask for a permit yet.\n"
    )
    semaphore.says("take-away", "one", running.id, "--force")
    for result in results:
        result.get(timeout=20)
    assert sorted(results, key=lambda result: result.date_done) == [results[2], *results[:2]]


def test_parked_tasks_are_purged(site: Site, semaphore: Command) -> None:
    site.start(concurrency=2, conf=PARK)
    site.occupy()
    results = [site.send("hold", 0.0, "purged") for _ in range(2)]
    wait_until(lambda: site.waiting() == 2, 20, "they wait")
    asked = semaphore("purge", "one", typed="n\n")
    assert asked.out.startswith("semaphore 'one': 2 waiting. The tasks among them will never run.")
    assert site.waiting() == 2
    assert semaphore.says("purge", "one", "--force") == "Purged 2 parked task(s).\n"
    assert [result.state for result in results] == ["REVOKED"] * 2
    assert site.waiting() == 0
    assert site.counter.stats("purged")["tasks"] == {}


def test_a_name_that_is_new(site: Site, semaphore: Command) -> None:
    assert semaphore.says("limit", "new", "3", "--force") == "new: the limit is 3 (set).\n"
    assert semaphore.says("limit", "new", "--clear", "--force") == (
        "new: no limit is set, or declared by a task of this app.\n"
    )
    said = semaphore("limit", "new", "3")
    assert said.err.endswith(" To set its limit before it is used, add --force.\n")
    said = semaphore("limit", "new", "--clear", "--force")
    assert (said.code, said.out) == (1, "")
    assert "no semaphore 'new'" in said.err
    assert "--force" not in said.err


def test_nobody_answers(site: Site, semaphore: Command) -> None:
    site.lease = 60.0  # nobody renews this permit, and each command takes seconds
    store = site.store()
    assert isinstance(store.acquire([Claim("one", None, 1)], "t1:1"), Permit)
    store.close()
    assert "no worker answered within 0.2 s." in semaphore.says("show", "one", "-t", "0.2")
    away = f"redis://127.0.0.1:{free_port()}/0"
    lonely = Command(site.env() | {"BROKER": away})
    said = lonely.says("show", "one", "-t", "0.2")
    assert "1 of 1 in use" in said
    assert "the workers could not be asked: " in said
    nobody = Command(site.env() | {"STORE": away})("list")
    assert (nobody.code, nobody.out) == (69, "")
    assert re.fullmatch(r"Error: The store did not answer: .*refused\.\n", nobody.err)


def test_nowhere_to_look(site: Site) -> None:
    env = site.env() | {"BROKER": "amqp://localhost//", "STORE": "", "BACKEND": "rpc://"}
    said = Command(env)("list")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("Error: semaphore_url is not set")
    assert "celery -A" not in said.err, "an app was named"


def test_no_app_is_named() -> None:
    said = Command(app=None)("list")
    assert (said.code, said.out) == (1, "")
    assert said.err.endswith("Or name your app: celery -A …\n")


@pytest.mark.rabbitmq
def test_workers_are_asked_by_any_broker(rabbit_site: Site) -> None:
    worker = rabbit_site.start(concurrency=1)
    (running,) = rabbit_site.occupy()
    semaphore = Command(rabbit_site.env())
    (permit,) = semaphore.json("show", "one", "--timeout", "3")["permits"]
    assert (permit["task_id"], permit["worker"]) == (running.id, worker.hostname)
