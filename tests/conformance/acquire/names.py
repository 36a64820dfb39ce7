"""Test that any name is a legal key, and that no two names share a permit."""

from __future__ import annotations

import gc
import random
import tracemalloc
from itertools import pairwise
from string import ascii_letters
from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.key import MAX_NAME_BYTES
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.names import LONGEST_NAME
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import SemaphoreError, StoreUnavailable
from celery_semaphore.stores.encoding import brief
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, why
from tests.conformance.grants import messages, released
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_semaphore.core.store import Store

HOSTILE: list[str | None] = [
    None,
    "",
    " ",
    "None",
    "\x00",
    "\x00\x00",
    "a\nb",
    "a\r\nb",
    "{a}",
    "}{",
    "a:b",
    ":holders",
    "a/b",
    "a%2Fb",
    "*",
    "[a-z]?",
    "'\"\\",
    "ключ",
    "鍵",
    "\U0001f511",
    "é",
    "e\u0301",
    "\udc80",
    "x" * 10_000,
    "x" * 10_001,
    "x" * 9_999 + "~",
    "\\",
    "~",
    "%7E",
    "; DROP TABLE x; --",
]


class Names(Suite):
    def test_no_two_keys_share_a_permit(self, store: Store) -> None:
        for n, key in enumerate(HOSTILE):
            admitted(store, claim(key=key), f"h{n}")
        for n, key in enumerate(HOSTILE):
            assert why(store, claim(key=key), f"i{n}") is Reason.SATURATED
        assert len(set(store.resources())) == len(HOSTILE)

    def test_no_two_semaphores_share_a_permit(self, store: Store) -> None:
        names = [name for name in HOSTILE if name is not None]
        for n, name in enumerate(names):
            admitted(store, claim(of=name), f"h{n}")
            assert why(store, claim(of=name), f"i{n}") is Reason.SATURATED

    def test_all_keys_in_one_permit(self, store: Store) -> None:
        claims = [one for key in HOSTILE for one in claim(key=key)]
        permit = admitted(store, claims, "a")
        assert set(map(str, store.renew([permit]).values())) == {"ok"}
        for key in HOSTILE:
            assert why(store, claim(key=key), "b") is Reason.SATURATED
        store.release("a", claims)
        assert list(store.resources()) == []

    @pytest.mark.parametrize("key", HOSTILE, ids=lambda key: repr(key)[:20])
    def test_a_claim_comes_back_from_parking_as_it_was(self, store: Store, key: str | None) -> None:
        wanted = claim(key=key)
        admitted(store, wanted, "a")
        parked(store, wanted, "b")
        (grant,) = released(store, "a", wanted)
        assert grant.claims == brief(wanted)
        assert key is None or len(key) > MAX_NAME_BYTES or grant.claims == tuple(wanted)

    def test_of_a_long_key_little_is_kept(self, store: Store) -> None:
        """Keep little, for a key may have megabytes, and thousands of tasks may wait."""
        held = [claim(of="x" * 2_000_000, key=f"{n}" + "é" * 1_000_000) for n in range(4)]
        for wanted in held:
            admitted(store, wanted, "a")
        tracemalloc.start()
        try:
            for n, wanted in enumerate(held):
                parked(store, wanted, f"b{n}")
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < 500_000
        for wanted in held:
            (grant,) = released(store, "a", wanted)
            (one,) = grant.claims
            assert one.resource == wanted[0].resource
            assert len(one.semaphore + str(one.key)) < 300
            store.sent([grant])
            admitted(store, wanted, "b2", came_back(grant.ticket, Kind.PARK))

    @pytest.mark.parametrize(
        "holder", ["", " ", "by:x", "255.1", "a b c", "a\nb", "a.b.c", "%s", "ключ", "x" * 1000]
    )
    def test_any_holder(self, store: Store, holder: str) -> None:
        holder = f"{holder}!"
        permit = admitted(store, claim(), holder)
        assert permit.holder == holder
        assert list(store.renew([permit])) == [holder]
        assert store.snapshot("api").holders[0].holder == holder
        ticket = parked(store, claim(), holder + "2")
        assert messages(released(store, holder, claim())) == [f"{holder}2".encode()]
        admitted(store, claim(), holder + "3", came_back(ticket, Kind.PARK))

    def test_the_longest_names(self, store: Store) -> None:
        """Use random letters: names that a server can compress may be longer."""
        letters = random.Random(7).choices(ascii_letters, k=LONGEST_NAME)
        holder = "".join(letters)[: LONGEST_NAME - 20 * 6] + 20 * "é"
        brought = MessageId(holder, holder, remember_for=60.0)
        wanted = claim(of="x" * 10_000, key="y" * 10_000)
        admitted(store, wanted, "a")
        answer = store.acquire(wanted, holder, Wait(Kind.PARK), brought)
        assert isinstance(answer, Refusal)
        assert answer.ticket
        store.attach(answer.ticket, wanted, b"", name=holder)
        assert messages(released(store, "a", wanted)) == [b""]
        admitted(store, wanted, "b", came_back(answer.ticket, Kind.PARK))

    @pytest.mark.parametrize(
        "name", ["x" * (LONGEST_NAME + 1), "é" * (LONGEST_NAME // 6 + 1), "\0" * 1_000_000]
    )
    def test_longer_names_are_refused_for_good(self, store: Store, name: str) -> None:
        """Report no outage: a retry would always be refused, and others must not wait for it."""
        wait = Wait(Kind.PARK)
        ticket = refused(store, claim(0), "a", wait).ticket
        assert ticket
        calls: list[Callable[[], object]] = [
            lambda: store.acquire(claim(), name, wait),
            lambda: store.acquire(claim(), "b", wait, MessageId(name)),
            lambda: store.acquire(claim(), "b", wait, MessageId("b", name)),
            lambda: store.attach(ticket, claim(0), b"", name=name),
        ]
        for call in calls:
            with pytest.raises(SemaphoreError, match="shorter id") as caught:
                call()
            assert not isinstance(caught.value, StoreUnavailable)
        store.release(name, claim())
        admitted(store, claim(), "c")
        made = refused(store, claim(), "d", came_back(Ticket.parse(ticket.text[:21] + name))).ticket
        assert made
        assert made.nonce == "d"

    def test_holders_that_resemble_each_other(self, store: Store) -> None:
        holders = ["a", "a ", "A", "a\x00", "á"]
        for holder in holders:
            admitted(store, claim(5), holder)
        for one, other in pairwise(holders):
            store.release(one, claim(5))
            assert one not in {held.holder for held in store.snapshot("api").holders}
            assert other in {held.holder for held in store.snapshot("api").holders}
