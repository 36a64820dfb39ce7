"""The gate: the epoch that a delivery brings, and when a lease begins."""

from __future__ import annotations

import time
from typing import Any

import pytest
from celery import Celery

from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.header_names import EPOCH
from celery_semaphore.worker.pool_process.refused import Refused
from tests.worker.main_process.test_request import request_dict
from tests.worker.requests import delivered, limited


def test_a_lease_counts_from_before_the_store_was_asked(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = limited(app)
    process, since = limiter_of(app).process, list[float]()
    acquire = process.store.acquire

    def slow(*args: Any) -> Any:
        time.sleep(0.3)
        return acquire(*args)

    monkeypatch.setattr(process.store, "acquire", slow, raising=False)
    monkeypatch.setattr(process.keeper, "add", lambda _, confirmed, __: since.append(confirmed))
    before = time.monotonic()
    delivered(task)
    assert since[0] < before + 0.2


def test_a_process_learns_the_epoch_from_its_delivery(app: Celery) -> None:
    """A new process asks a store that forgot: it must not admit itself before the living are back."""
    task = limited(app)
    sent = request_dict(task, epoch=7)
    limiter_of(app).process.store.epoch = None
    headers: dict[str, Any] = {EPOCH: sent.get(EPOCH)}
    with pytest.raises(Refused, match="recovering"):
        delivered(task, **headers)
