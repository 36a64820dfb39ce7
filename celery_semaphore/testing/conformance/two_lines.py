"""Test waits that stand in two lines, for a changed task came back twice, and are granted in each."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ...core.permit import Kind
from ...core.session import GRANT_S, HeldWait, Standing
from .acquisition import admitted, came_back, claim
from .calling import granted
from .changed_tasks import DISK, fill_both
from .grants import messages
from .session_calls import S, held
from .suite import Suite

if TYPE_CHECKING:
    from ...core.permit import Claim
    from ...core.store import Store
    from ...core.ticket import Ticket
    from ..clock import Clock


def granted_twice(store: Store, clock: Clock) -> tuple[Ticket, int]:
    """Let a wait stand in two lines, and grant it at each; return its ticket, and the newer token."""
    fill_both(store)
    ticket = held(store, "b", claims=claim()).ticket
    held(store, "b2", claims=DISK, ticket=ticket)
    store.release("a", claim())
    clock.advance(0.5)
    store.ask(S)
    store.release("y", DISK)
    newer = store.snapshot("disk").holders[0].token
    assert newer > store.snapshot("api").holders[0].token
    return ticket, newer


class TwoLines(Suite):
    @pytest.fixture(params=[1, -1])
    def both(self, request: pytest.FixtureRequest) -> list[Claim]:
        """Return the claims on both resources, in each order."""
        return [*claim(), *DISK][:: request.param]

    def test_a_wait_in_two_lines_may_get_two_grants(
        self, store: Store, clock: Clock, both: list[Claim]
    ) -> None:
        """Test that the task which takes up both gets the newer token, whatever the order of its claims."""
        ticket, granted_last = granted_twice(store, clock)
        assert admitted(store, both, "b3", came_back(ticket)).token == granted_last

    def test_a_message_with_two_grants_is_sent_once(
        self, store: Store, clock: Clock, both: list[Claim]
    ) -> None:
        """Test that it is sent when it is attached, whatever the order of its claims."""
        ticket, _ = granted_twice(store, clock)
        outgoing = store.attach(ticket, both, b"m")
        assert messages(store.take(outgoing)) == [b"m"]
        assert not store.take(frozenset({"api", "disk"}))
        admitted(store, both, "b3", came_back(ticket, Kind.PARK))
        assert store.snapshot("api").waiting == store.snapshot("disk").waiting == 0

    def test_a_message_for_other_claims_leaves_the_grant_to_the_session(self, store: Store) -> None:
        """Hold a task that was granted its claim, and name and park another delivery of it with other claims."""
        fill_both(store)
        wait = held(store, "b")
        store.release("a", claim())
        other = HeldWait(wait.ticket, tuple(DISK))
        assert store.name(S, [other]) == {wait.ticket: Standing.WAITS}
        assert not store.attach(wait.ticket, DISK, b"b")
        assert store.ask(S).granted == {wait.ticket.nonce}

    def test_a_wait_to_forecast_prolongs_no_grant(self, store: Store, clock: Clock) -> None:
        """Q4: only the claims of what is being taken up count, and the task that has this grant has others now."""
        fill_both(store)
        wait = held(store, "b")
        other = held(store, "c")
        store.release("a", claim())
        changed = HeldWait(wait.ticket, tuple(DISK))
        for _ in range(2):
            store.ask(S, begun=[changed], to_forecast=[other])
            clock.advance(GRANT_S / 2)
        assert store.ask(S).granted == frozenset()

    def test_a_grant_takes_the_place_of_one_with_another_weight(self, store: Store) -> None:
        """Let the second grant weigh less than the first one, at the resource of both: nothing is left of that."""
        store.ask(S)
        full = [claim(3, weight=3), claim(3, weight=3, of="disk")]
        admitted(store, full[0], "a")
        admitted(store, full[1], "y")
        wanted = claim(3) + claim(3, of="disk")
        ticket = held(store, "b", claims=wanted).ticket
        held(store, "b2", claims=claim(3, weight=2, of="disk"), ticket=ticket)
        store.release("y", full[1])
        assert store.snapshot("disk").occupied == 2  # noqa: PLR2004
        store.release("a", full[0])
        assert store.snapshot("disk").occupied == 1
        admitted(store, wanted, "b3", came_back(ticket))
        store.release("b3", wanted)
        admitted(store, full[1], "z")

    def test_a_message_for_both_claims_puts_the_wait_of_one_back(self, store: Store) -> None:
        """Attach it while one of them is granted: that grant is of another delivery."""
        fill_both(store)
        ticket = held(store, "b").ticket
        held(store, "b2", claims=DISK, ticket=ticket)
        store.release("a", claim())
        assert granted(store) == [ticket]
        assert not store.attach(ticket, claim() + DISK, b"b", name="b")
        assert granted(store) == [ticket]
        assert store.ask(S).granted == {ticket.nonce}
