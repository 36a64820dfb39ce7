"""Releaser: a release that got no answer is repeated."""

from __future__ import annotations

import time

import pytest

from celery_semaphore.core.permit import Claim
from celery_semaphore.core.releaser import Releaser
from tests.support.failing_store import FailingStore
from tests.support.process import wait_until

ONE = Claim("one", None, 1)


def test_an_unanswered_release_is_repeated() -> None:
    store = FailingStore()
    store.failures = 2
    releaser = Releaser(store)  # type: ignore[arg-type]
    releaser.release("a", [ONE])
    releaser.start()
    wait_until(lambda: store.released == [("a", ["one"])], 10, "it is released")
    releaser.close(5)


def test_what_is_older_than_a_lease_is_given_up_at_once(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore()
    store.failures, store.lease = 1, 0.2
    releaser = Releaser(store)  # type: ignore[arg-type]
    for holder in "abc":
        releaser.release(holder, [ONE])
    time.sleep(0.3)  # longer than the lease
    releaser.release("d", [ONE])
    releaser.start()
    wait_until(lambda: store.released == [("d", ["one"])], 10, "it is released")
    releaser.close(5)
    assert caplog.text.count("3 release(s) given up, their leases have ended") == 1
