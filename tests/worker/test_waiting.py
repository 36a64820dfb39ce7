"""A task that waits: within the limit, and invisibly."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from celery import chain, chord, group
from celery.exceptions import ChordError, TaskRevokedError

from celery_semaphore import SemaphoreError
from celery_semaphore.core.claim import Claim
from celery_semaphore.task.call_options import take_up_options
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from .conftest import Site, ways_to_requeue

ONE = Claim("one", None, 1)


def run_all(site: Site, name: str, count: int, *args: object, timeout: float = 60) -> None:
    results = [site.send(name, *args) for _ in range(count)]
    wait_until(lambda: all(r.ready() for r in results), timeout, f"{count} of {name} are done")
    assert {result.state for result in results} == {"SUCCESS"}


@pytest.mark.parametrize("name", ["call", "call_late"])
def test_never_above_the_limit(site: Site, name: str) -> None:
    for _ in range(2):
        site.start(concurrency=6)
    run_all(site, name, 100, 0.05, "api")
    stats = site.counter.stats("api")
    assert 1 < stats["max_inside"] <= 5
    assert stats["completed"] == 100
    site.wait_all_back(Claim("api", None, 5), 5)


def test_each_key_has_the_whole_limit(site: Site) -> None:
    site.start(concurrency=8)
    tenants = ["a", "", "a b", "{x}", "é\x00\n", "a:b"]
    results = [site.send("export", t, 0.1) for t in tenants for _ in range(8)]
    wait_until(lambda: all(r.ready() for r in results), 60, "all exports are done")
    assert {r.state for r in results} == {"SUCCESS"}
    for tenant in tenants:
        assert site.counter.stats(f"tenant {tenant}")["max_inside"] <= 2


def test_several_limits_at_once(site: Site) -> None:
    site.start(concurrency=8)
    results = [site.send("both", t, 0.05) for t in "abcd" for _ in range(10)]
    wait_until(lambda: all(r.ready() for r in results), 60, "all are done")
    assert {r.state for r in results} == {"SUCCESS"}
    assert site.counter.stats("total")["max_inside"] <= 3
    assert all(site.counter.stats(f"each {t}")["max_inside"] == 1 for t in "abcd")


@pytest.mark.parametrize("policy", ["wait", "requeue"])
def test_a_task_with_two_limits_beside_tasks_with_one(site: Site, policy: str) -> None:
    """Its turn comes before those of 20 tasks that were sent later, for as long as all permits are wanted.

    Half of them have the limit that it waits for. Those with the other one may run, if fewer tasks wait there.
    """
    site.start(app="tests.worker.sides", conf={"semaphore_on_saturated": policy})
    sides = ("left", "right")
    earlier = [site.send(name).id for _ in range(60) for name in sides]
    two = site.send("two")
    later = [(name, site.send(name).id) for _ in range(60) for name in sides]
    wait_until(two.ready, 60, "the task with two limits has run")
    entered = list(site.counter.stats("sides")["tasks"])
    before = entered[: entered.index(two.id)]
    overtook = [sum(side == name and task in before for side, task in later) for name in sides]
    assert min(overtook) < 10, overtook
    assert len(set(before) & set(earlier)) > 60, "it had to wait"


def test_drop_and_fail(site: Site) -> None:
    site.start(concurrency=2)
    site.occupy()
    dropped, failing = site.send("dropped", "d"), site.send("failing", "f")
    wait_until(failing.ready, 10, "it failed")
    assert failing.state == "FAILURE"
    assert type(failing.result).__name__ == "SemaphoreSaturated"
    assert "1 of 1 in use" in str(failing.result)
    with pytest.raises(TaskRevokedError, match="dropped: semaphore 'one' is saturated"):
        dropped.get(timeout=10)
    assert dropped.state == "REVOKED"
    assert site.counter.stats("d")["entries"] == site.counter.stats("f")["entries"] == 0


def test_what_waits_for_a_dropped_task_does_not_hang(site: Site, valkey: ValkeyServer) -> None:
    site.start(concurrency=2)
    site.occupy()
    sig = site.client.signature
    drop, add = sig("dropped", ("d",)), sig("add", (1, 2))
    for header in ([add, drop, add], [add, chain(drop, add)]):
        body = chord(header, sig("limited_sum")).apply_async()
        wait_until(body.ready, 10, "the chord's body has an end")
        assert type(body.result) is ChordError
        assert "TaskRevokedError(\"dropped: semaphore 'one' is saturated" in str(body.result)
    with pytest.raises(TaskRevokedError, match="dropped: semaphore 'one' is saturated"):
        chain(drop, add).apply_async().get(timeout=10)
    assert site.inside("held") == 1, "nobody waited for the permit"
    assert site.counter.stats("d")["entries"] == 0
    # Nothing of Celery's says otherwise when it hears of the end.
    results = [site.send("dropped", "d", task_id=f"drop-{n}") for n in range(5)]
    wait_until(lambda: all(result.ready() for result in results), 10, "all were dropped")
    with valkey.client() as broker:
        wait_until(lambda: broker.hlen("unacked") == 0, 10, "their messages are acknowledged")
    assert {result.state for result in results} == {"REVOKED"}


@ways_to_requeue
def test_wait_timeout(site: Site, *, keep: bool) -> None:
    site.start(concurrency=2, conf={"semaphore_keep": keep})
    site.occupy()
    result = site.send("impatient", "i")
    wait_until(result.ready, 10, "it gave up")
    assert site.inside("held") == 1, "it gave up before the permit was free"
    assert type(result.result).__name__ == "SemaphoreTimeout"
    said = r"waited \d\.\d s for a permit of semaphore 'one': 1 of 1 in use"
    assert re.fullmatch(said, str(result.result))
    assert site.counter.stats("i")["entries"] == 0


@ways_to_requeue
def test_revoked_while_it_waits(site: Site, *, keep: bool) -> None:
    site.start(concurrency=2, conf={"semaphore_keep": keep})
    site.occupy()
    result = site.send("hold", 0, "never")
    wait_until(lambda: site.workers[0].log().count(result.id) >= 2, 10, "it waits")
    result.revoke()
    wait_until(result.ready, 15, "it has a state")
    assert result.state == "REVOKED"
    assert site.counter.stats("never")["entries"] == 0
    site.let_go()
    site.wait_all_back(ONE, 10)


@ways_to_requeue
def test_expires_while_it_waits(site: Site, *, keep: bool) -> None:
    site.start(concurrency=2, conf={"semaphore_keep": keep})
    site.occupy()
    result = site.send("hold", 0, "never", expires=1.5)
    wait_until(result.ready, 15, "it has a state")
    assert result.state == "REVOKED"
    assert site.counter.stats("never")["entries"] == 0


@ways_to_requeue
def test_unlimited_tasks_pass_by(site: Site, *, keep: bool) -> None:
    conf = {"semaphore_keep": keep, "semaphore_requeue_max_delay": 2.0}
    site.start(concurrency=2, conf=conf)
    site.occupy()
    waiting = [site.send("hold", 0.0, "w") for _ in range(20)]
    free = [site.send("free") for _ in range(20)]
    wait_until(lambda: all(r.ready() for r in free), 10, "unlimited tasks are done")
    assert site.inside("held") == 1, "they did not wait for the permit"
    site.let_go()
    wait_until(lambda: all(r.ready() for r in waiting), 30, "the waiting ones are done")


def test_a_subclass_that_forgets_super_is_limited(site: Site) -> None:
    worker = site.start(concurrency=4)
    run_all(site, "careless", 8, "careless")
    assert site.counter.stats("careless")["max_inside"] == 1
    assert worker.log().count("before_start of") >= 8


def test_canvas(site: Site) -> None:
    site.start(concurrency=4)
    sig = site.client.signature
    header = [sig("limited_add", (n, n)) for n in range(6)]
    chained = chain(sig("limited_add", (1, 1)), sig("limited_add", (2,)), sig("add", (3,)))
    linked = sig("limited_add", (5, 5), link=sig("limited_add", (1,)))
    results = [
        chained.apply_async(),
        group(header).apply_async(),
        chord(header, sig("limited_sum")).apply_async(),
        linked.apply_async(),
    ]
    assert results[0].get(timeout=30) == 7
    assert results[1].get(timeout=30) == [0, 2, 4, 6, 8, 10]
    assert results[2].get(timeout=30) == 30
    assert results[3].get(timeout=30) == 10
    assert results[3].children[0].get(timeout=30) == 11


MESSAGES: dict[str, dict[str, object]] = {
    "plain": {},
    "pickle and zlib": {"serializer": "pickle", "compression": "zlib"},
    "expires": {"expires": 300},
    "priority": {"priority": 3},
    "shadow, custom header": {"shadow": "seen as", "headers": {"mine": "1"}},
    "no result kept": {"ignore_result": False},
    "time limits": {"time_limit": 50, "soft_time_limit": 40},
    "stamps": {"headers": {"stamped_headers": ["stamp"], "stamps": {"stamp": ["x"]}}},
    "hidden arguments": {"argsrepr": "(secret)", "kwargsrepr": "{secret}"},
    "explicit queue": {"queue": "other"},
    "reply to, origin": {"reply_to": "somewhere"},
    "link": {"link": []},
}


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
@ways_to_requeue
def test_the_message_is_unchanged(
    broker: str, request: pytest.FixtureRequest, *, keep: bool
) -> None:
    """The same call, run at once and after it waited, sees the same message, field by field."""
    site: Site = request.getfixturevalue("site" if broker == "redis" else "rabbit_site")
    conf = {"accept_content": ["json", "pickle"], "semaphore_keep": keep}
    env = {"C_FORCE_ROOT": "1"}  # some run tests as root, and Celery then refuses pickle
    worker = site.start(concurrency=4, queues=["celery", "other"], conf=conf, env=env)
    site.client.conf.accept_content = ["json", "pickle"]
    alike: dict[str, tuple[str, str]] = {}
    for name, options in MESSAGES.items():
        alike[name] = (uuid4().hex, uuid4().hex)
        site.wait_all_back(ONE, 10)  # a result comes before its permit is back
        site.send("look", 1, kwargs={"b": [2]}, task_id=alike[name][0], **options)
        site.client.AsyncResult(alike[name][0]).get(timeout=20)
    site.occupy()
    for name, options in MESSAGES.items():
        site.send("look", 1, kwargs={"b": [2]}, task_id=alike[name][1], **options)
    said = [f"[{waited}] waits" for _, waited in alike.values()]
    wait_until(lambda: all(each in worker.log() for each in said), 20, "they wait")
    site.let_go()
    for name, (at_once, waited) in alike.items():
        after = site.client.AsyncResult(waited).get(timeout=30)
        before = site.client.AsyncResult(at_once).get(timeout=10)
        assert f"[{at_once}] waits" not in worker.log(), name
        assert _normal(after, waited) == _normal(before, at_once), name
        assert after["retries"] == 0


def _normal(seen: dict[str, Any], own: str) -> str:
    properties = dict(seen["properties"])
    for volatile in ("delivery_tag", "timestamp", "application_headers", "delivery_info"):
        properties.pop(volatile, None)
    seen = {**seen, "properties": properties, "expires": bool(seen["expires"])}
    return repr(sorted(seen.items())).replace(own, "<id>")


@pytest.mark.parametrize("broker", ["site", "rabbit_site"])
def test_a_call_by_name_takes_its_options_along(
    broker: str, request: pytest.FixtureRequest
) -> None:
    """RabbitMQ drops a property that it does not know."""
    take_up_options()  # as the import of LimitedTask does
    site: Site = request.getfixturevalue(broker)
    site.start(concurrency=2)
    store = site.store()
    store.set_limit(0, "tenant/vip")
    waits = site.send("export", "a", semaphore_key="vip")
    site.send("export", "a").get(timeout=20)
    wait_until(lambda: site.waiting("tenant/vip") == 1, 20, "it waits under its own key")
    store.set_limit(None, "tenant/vip")
    waits.get(timeout=20)
    store.close()
    with pytest.raises(SemaphoreError, match=r"header semaphore_kye.* did you mean semaphore_key"):
        site.send("export", "a", semaphore_kye="vip").get(timeout=20)
