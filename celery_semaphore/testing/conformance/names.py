"""Any name is a legal key, and none is another's."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from ...core.permit import Kind, Reason
from .suite import Suite, admitted, came_back, claim, messages, parked, released, why

if TYPE_CHECKING:
    from ...core.store import Store

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
        assert grant.claims == tuple(wanted)

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

    def test_holders_that_resemble_each_other(self, store: Store) -> None:
        holders = ["a", "a ", "A", "a\x00", "á"]
        for holder in holders:
            admitted(store, claim(5), holder)
        for one, other in pairwise(holders):
            store.release(one, claim(5))
            assert one not in {held.holder for held in store.snapshot("api").holders}
            assert other in {held.holder for held in store.snapshot("api").holders}
