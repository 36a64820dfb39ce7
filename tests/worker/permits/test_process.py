"""A process is gone once it ended."""

from __future__ import annotations

import os

from celery_semaphore.worker.permits.process import is_gone
from tests.support.process import wait_until


def test_a_process_is_gone_once_it_ended() -> None:
    """Whether its pool has waited for it or not."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:  # pragma: no cover - in the child
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    assert not is_gone(pid)
    os.close(write)
    wait_until(lambda: is_gone(pid), 10, "it is gone")
    os.waitpid(pid, 0)
    assert is_gone(pid)
