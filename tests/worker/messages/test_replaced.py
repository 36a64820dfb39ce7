"""A task that replaces itself keeps its id; its replacement is another task, never a copy of it."""

from __future__ import annotations

from typing import Any

import pytest
from celery import chain, chord
from kombu import Queue

from celery_semaphore.worker.messages.ticket_header import message_id_of
from tests.support.process import wait_until

from ..brokers import EITHER
from ..conftest import Site

# How it replaces itself: the retries and the depth of what runs at last.
WAYS = {
    "by a task": [0, 1],
    "by a chain": [0, 1],
    "again": [0, 2],
    "by a task that retries": [1, 1],
    "after a retry": [0, 1],
}


def deliver_again(site: Site, queue: str, count: int) -> None:
    """Take what lies in this queue, and give it back to the broker."""
    with site.client.connection_for_write() as connection:
        bound = Queue(queue).bind(connection.default_channel)
        bound.declare()
        taken: list[Any] = []

        def all_taken() -> bool:
            if found := bound.get():
                taken.append(found)
            return len(taken) == count

        wait_until(all_taken, 20, f"{count} replacements are in queue {queue!r}")
        for each in taken:
            each.reject(requeue=True)


@pytest.mark.parametrize("broker", EITHER)
def test_a_replacement_that_is_delivered_again_runs(
    broker: str, request: pytest.FixtureRequest
) -> None:
    """Each page waits for its permit and is published again, so that its copies are known when it has run."""
    site: Site = request.getfixturevalue(broker)
    site.start(concurrency=2, conf={"semaphore_requeue_max_delay": 0.3, "semaphore_keep": False})
    store = site.store()
    store.set_limit(0, "pages")
    results = {how: site.send("page", how) for how in WAYS}
    first, last = (site.client.signature("page", (how,), immutable=True) for how in ("in", "last"))
    in_chain, in_chord = chain(first, last).apply_async(), chord([first], last).apply_async()
    site.results += [in_chain, in_chain.parent, in_chord, *in_chord.parent]
    wait_until(lambda: site.waiting("pages") == len(WAYS) + 2, 20, "all wait")
    store.set_limit(None, "pages")
    wait_until(lambda: site.counter.stats("again")["entries"] == 1, 20, "the first page ran")
    store.set_limit(0, "pages")
    assert site.client.control.add_consumer("middle", reply=True, timeout=1)
    wait_until(lambda: site.waiting("pages") >= 1, 20, "the second of three pages waits")
    store.set_limit(None, "pages")
    deliver_again(site, "other", len(WAYS) + 2)
    assert site.client.control.add_consumer("other", reply=True, timeout=1)
    assert {how: result.get(timeout=20) for how, result in results.items()} == WAYS
    assert in_chain.get(timeout=20) == [0, 1], "what follows in the chain is marked as it is"
    assert in_chord.get(timeout=20) == [0, 0]
    store.close()


def test_each_retry_and_each_replacement_is_another_wait() -> None:
    sent = [
        {"id": "x", "retries": retries, "replaced_task_nesting": depth}
        for retries in range(3)
        for depth in range(3)
    ]
    assert len({message_id_of(each, None, 1.0).task for each in sent}) == len(sent)


def test_a_message_without_these_headers_is_neither() -> None:
    """As by protocol 1, and by senders that are not Celery."""
    bare, nothing = (
        message_id_of({"id": "x", **more}, None, 1.0)
        for more in ({}, {"retries": None, "replaced_task_nesting": None})
    )
    assert bare.task == nothing.task
