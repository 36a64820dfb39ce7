"""What a worker logs of a permit: the task that had it, and nothing secret."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from celery_semaphore.core.announcer import Announcer
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.events import (
    Event,
    Loss,
    PermitAcquiredEvent,
    PermitLostEvent,
    PermitRestoredEvent,
)
from celery_semaphore.core.lease import LeaseKeeper
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.releaser import Releaser
from celery_semaphore.testing import MemoryStore
from celery_semaphore.worker.main_process.announcements import Announcements
from celery_semaphore.worker.permits.ledger import Ledger
from celery_semaphore.worker.permits.receivers import ReceiverThread

HOLDER = "4711-aa:0123456789abcdef"
CLAIM = Claim("tenant", "KEYcanary", 1)
PERMIT = Permit(HOLDER, 1, (CLAIM,), 0.0, 30.0, 1)
LOST = (PermitLostEvent(PERMIT, "not renewed for 27.0 s", Loss.NOT_RENEWED), "lost its permit: not")
RESTORED = (PermitRestoredEvent(PERMIT), "the store forgot its permit and took it back")


@pytest.mark.parametrize(("event", "said"), [LOST, RESTORED], ids=["lost", "restored"])
@pytest.mark.parametrize("noted", ["shop.export", ""], ids=["noted", "too long for the note"])
def test_a_line_names_the_task(
    event: Event, said: str, noted: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, announce = MemoryStore(), Announcer()
    ledger = Ledger(LeaseKeeper(store, announce), Releaser(store), announce, lambda _: None)
    task = SimpleNamespace(name="shop.export")
    watcher: Any = SimpleNamespace(
        task=task, permit_held=lambda _: None, permit_lost=lambda _: None
    )
    ledger.watch(HOLDER, watcher)
    ledger.asked(HOLDER, [CLAIM])
    ledger.held(PermitAcquiredEvent(PERMIT, noted), 0.0)
    Announcements(ledger, ReceiverThread(lambda _: None))(event)
    (line,) = caplog.messages
    assert line.startswith("task shop.export[4711-aa]")
    assert said in line
    assert "canary" not in line
    assert "0123456789abcdef" not in line, "the holder is a name for the store"
