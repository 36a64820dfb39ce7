"""Releaser: a release that got no answer is repeated."""

from __future__ import annotations

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
