"""LoopWaker: the event loop runs as soon as a message can be acknowledged."""

from __future__ import annotations

import select

from celery_semaphore.worker.permits.loop_waker import LoopWaker


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
