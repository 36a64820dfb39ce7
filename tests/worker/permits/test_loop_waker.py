"""LoopWaker: the event loop runs as soon as a message can be acknowledged."""

from __future__ import annotations

import select

from celery_semaphore.worker.permits.loop_waker import LoopWaker
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.worker.conftest import Site


def test_the_alarm_is_heard() -> None:
    waker = LoopWaker()

    def rings() -> bool:
        return bool(select.select([waker.fileno()], [], [], 0)[0])

    assert not rings()
    for _ in range(100_000):  # more than a pipe takes: ringing must not block
        waker.wake()
    assert rings()
    waker.clear()
    assert not rings()


def test_an_early_ack_is_sent_while_the_task_runs(site: Site, valkey: ValkeyServer) -> None:
    """The process rings, and nobody else makes the main process read that it has its permit."""
    # A session of kept tasks wakes the loop, too, three times in a lease.
    site.start(concurrency=1, env={"REST_LONG": "1"}, conf={"semaphore_keep": False})
    site.occupy()
    with valkey.client() as broker:
        wait_until(lambda: broker.hlen("unacked") == 0, 10, "its message is acknowledged")
    assert site.inside("held") == 1
