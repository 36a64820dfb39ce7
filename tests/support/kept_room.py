"""Let a wait keep room: it finds it at one semaphore while another one is saturated (H12)."""

from __future__ import annotations

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.store import Store
from celery_semaphore.core.wait import Kind, Wait


def keep_room(store: Store, claim: Claim, elsewhere: str = "disk") -> None:
    """Keep room for this claim, for 3 s; the other semaphore has one permit, which is in use."""
    other = Claim(elsewhere, None, 1)
    store.acquire([other], f"x of {elsewhere}")
    store.set_limit(0, claim.resource)
    refusal = store.acquire([claim, other], f"pair of {elsewhere}", Wait(Kind.PARK))
    assert isinstance(refusal, Refusal)
    assert refusal.ticket
    store.attach(refusal.ticket, [claim, other], b"")
    store.set_limit(None, claim.resource)
