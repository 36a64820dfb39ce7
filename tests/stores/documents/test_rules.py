"""The rules of compare-and-swap, each with the mutant that its test has failed for.

The mutants are in ``tests/mutants/documents.py``, by the same names.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress

import pytest

from celery_semaphore.core.claim import Claim, OtherClaims
from celery_semaphore.core.grant import Grant
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.documents.documents import RESOURCE, Busy, Changes, Key
from celery_semaphore.stores.documents.hints import payload_key
from celery_semaphore.stores.engine.codec import decode_resource
from celery_semaphore.stores.engine.resource import Resource
from tests.stores.conftest import claim, park, permit_of, refusal_of

from .between import Died, Held, HeldTransaction, KeptInDocuments

REQUEUE = Wait(Kind.REQUEUE, session="s")


def waits(store: KeptInDocuments, holder: str) -> Ticket:
    """Stand in line for a session that is awake."""
    store.ask("s")
    ticket = refusal_of(store.acquire(claim(), holder, REQUEUE)).ticket
    assert ticket
    return ticket


def loaded(store: KeptInDocuments) -> Resource:
    """Return what is kept of the resource."""
    key = Key(RESOURCE, "api")
    body = store._documents.begin([key]).get(key)
    assert body
    return decode_resource("api", body)[0]


def test_r1_each_attempt_reads_anew_what_it_does_not_write(
    held: Held, other: KeptInDocuments
) -> None:
    """Without it (an attempt has what the one before had read) a session gets a grant that sleeps."""
    held.store.acquire(claim(), "a")
    waits(other, "b")

    def sleep_and_change() -> None:
        other.sleep("s")
        other.acquire(claim(), "c")  # declares its limit: nothing that matters
        other.release("c", claim())

    held.between.before_commit.append(sleep_and_change)
    assert not held.store.release("a", claim()).granted
    assert other.snapshot("api").occupied == 0


def test_r3_the_stores_own_document_is_read_by_each_call(
    held: Held, other: KeptInDocuments
) -> None:
    """Without it (the document is kept between calls) nobody sees a pause of another process."""
    permit_of(held.store.acquire(claim(2), "a"))
    other.pause("api")
    assert refusal_of(held.store.acquire(claim(2), "b")).reason is Reason.PAUSED


def test_r4_a_limit_that_is_set_is_obeyed_by_what_is_under_way(
    held: Held, other: KeptInDocuments
) -> None:
    """Without it (no resource is written anew) an acquire counts by the limit of before."""
    permit_of(held.store.acquire(claim(2), "a"))
    held.between.before_commit.append(lambda: other.set_limit(1, "api"))
    assert refusal_of(held.store.acquire(claim(2), "b")).limit == 1


def test_r4_a_pause_is_obeyed_by_what_is_under_way_at_an_unused_key(
    held: Held, other: KeptInDocuments
) -> None:
    held.between.before_commit.append(lambda: other.pause("api"))
    assert refusal_of(held.store.acquire(claim(2), "a")).reason is Reason.PAUSED


@pytest.mark.parametrize("decide", ["pause", "set_limit"])
def test_r4_a_decision_is_obeyed_by_what_is_under_way_at_a_key_without_a_document(
    held: Held, other: KeptInDocuments, decide: str
) -> None:
    """Without it (a new resource is written whatever the store's document is) it is not among those written anew."""
    other.acquire(claim(of="disk"), "z")  # the store is in use, or its own document would change
    given = (1, "api") if decide == "set_limit" else ("api",)
    held.between.before_commit.append(lambda: getattr(other, decide)(*given))
    answer = held.store.acquire([Claim("api", "x", 2, 2)], "a")
    assert refusal_of(answer).reason in (Reason.PAUSED, Reason.UNSATISFIABLE)


def test_r4_the_decision_is_written_first(held: Held, other: KeptInDocuments) -> None:
    """Without it (the resources are written before the decision) the old limit counts after they were."""
    other.acquire(claim(2), "a")
    answers: list[object] = []
    held.between.after_commit.append(lambda: answers.append(other.acquire(claim(2), "b")))
    held.store.set_limit(1, "api")
    assert refusal_of(answers[0]).limit == 1


@pytest.mark.parametrize("writes", range(5))
def test_r5_a_release_that_is_torn_lets_no_released_holder_in(
    held: Held, other: KeptInDocuments, writes: int
) -> None:
    """Without it (a tombstone is a change as others) the resource is written without it."""
    other.acquire(claim(2), "a")
    held.between.writes_until = writes
    with suppress(Died):
        held.store.release("a", claim(2))
    gone = "a" not in {each.holder for each in other.snapshot("api").holders}
    answer = other.acquire(claim(2), "a")
    assert (refusal_of(answer).reason is Reason.RELEASED) if gone else permit_of(answer)


@pytest.mark.parametrize("writes", range(6))
def test_r5_a_message_that_is_parked_in_part_is_whole_or_not_there(
    held: Held, other: KeptInDocuments, writes: int
) -> None:
    """Without it (a message is written after its wait) there is one that cannot be taken."""
    other.acquire(claim(), "a")
    ticket = refusal_of(other.acquire(claim(), "b", Wait(Kind.PARK))).ticket
    assert ticket
    held.between.writes_until = writes
    with suppress(Died):
        held.store.attach(ticket, claim(), b"b", name="b")
    parked = [each for each in other.snapshot("api").waiters if each.kind is Kind.PARK]
    grants = other.take(other.release("a", claim()).outgoing)
    assert [grant.payload for grant in grants] in ([b"b"], [])
    assert bool(grants) <= bool(parked)


def test_a_wait_that_has_lost_its_message_is_dropped_and_said(
    held: Held, other: KeptInDocuments, caplog: pytest.LogCaptureFixture
) -> None:
    """Without it nobody gets the permit of the wait, and those behind it wait for ever."""
    other.acquire(claim(), "a")
    lost, next_one = park(other, "lost"), park(other, "next")
    payload = loaded(other).tickets[lost.nonce].payload
    assert payload
    other._documents.begin([]).commit({}, {payload_key(payload): None})
    outgoing = other.release("a", claim()).outgoing
    assert held.store.take(outgoing) == []
    assert lost.nonce in caplog.text
    [grant] = other.take(other.reap() | outgoing)
    assert grant.ticket.nonce == next_one.nonce


def test_a_message_that_was_sent_meanwhile_is_no_lost_one(
    held: Held, other: KeptInDocuments, caplog: pytest.LogCaptureFixture
) -> None:
    """Without it (the resource is not compared) its task is told to be lost."""
    other.acquire(claim(), "a")
    park(other, "b")
    outgoing = other.release("a", claim()).outgoing
    begin, grants = held.between.begin, list[Grant]()

    def begin_and_send(keys: Collection[Key], **how: bool) -> HeldTransaction:
        transaction = begin(keys, **how)
        if not grants:
            grants.extend(other.take(outgoing))
            other.sent(grants)
        return transaction

    held.between.begin = begin_and_send  # type: ignore[method-assign]
    assert held.store.take(outgoing) == []
    assert grants
    assert caplog.text == ""


def test_a_message_of_other_claims_is_not_kept(held: Held, other: KeptInDocuments) -> None:
    """Without it nothing ever deletes it."""
    for name in ("api", "disk"):
        other.acquire(claim(of=name), "a")
    ticket = park(other, "b")
    with pytest.raises(OtherClaims):
        held.store.attach(ticket, claim(of="disk"), b"b")
    assert other.durability(9).parked == 1


@pytest.mark.parametrize("writes", range(6))
def test_r5_a_grant_that_is_there_is_found(held: Held, other: KeptInDocuments, writes: int) -> None:
    """Without it (a hint is written after its grant) no question finds the grant."""
    other.acquire(claim(), "a")
    ticket = waits(other, "b")
    held.between.writes_until = writes
    with suppress(Died):
        held.store.release("a", claim())
    granted = any(each.ticket for each in other.snapshot("api").holders)
    assert other.ask("s").granted == ({ticket.nonce} if granted else frozenset())


def test_r6_a_release_overtakes_an_acquire_that_is_on_its_way(
    held: Held, other: KeptInDocuments
) -> None:
    """Without it (a tombstone alone does not write the resource) the holder has a permit after its release."""
    other.acquire(claim(), "z")  # the store is in use, or its own document would change
    other.release("z", claim())
    held.between.before_commit.append(lambda: other.release("a", claim()))
    assert refusal_of(held.store.acquire(claim(), "a")).reason is Reason.RELEASED
    assert other.snapshot("api").occupied == 0


def test_r7_a_busy_resource_costs_no_other_its_lease(held: Held, other: KeptInDocuments) -> None:
    """Without it (all are renewed in one transaction) none is renewed."""
    permits = [permit_of(other.acquire(claim(of=name), f"h-{name}")) for name in ("busy", "free")]
    held.store._timeout = 1.0
    held.between.refuses = lambda changes: any(key.name == "busy" for key in changes)
    assert held.store.renew(permits) == {"h-free": Renewal.OK}


def test_r7_a_renewal_is_bounded_and_tries_first_what_had_no_time_before(
    held: Held, other: KeptInDocuments
) -> None:
    """Without it (each resource is tried) a call lasts as long as all that are busy together."""
    permits = [permit_of(other.acquire(claim(of=name), f"h-{name}")) for name in ("busy", "free")]

    def refuses(changes: Changes) -> bool:
        if any(key.name == "busy" for key in changes):
            time.sleep(0.1)
            raise Busy("it is locked")
        return False

    held.store._timeout = 0.05
    held.between.refuses = refuses
    with pytest.raises(StoreUnavailable, match="it is locked"):
        held.store.renew(permits)
    assert held.between.attempts == 1
    assert held.store.renew(permits) == {"h-free": Renewal.OK}


def test_r7_claims_on_several_resources_are_renewed_together(
    held: Held, other: KeptInDocuments
) -> None:
    both = claim() + claim(of="disk")
    permit = permit_of(other.acquire(both, "a"))
    assert held.store.renew([permit]) == {"a": Renewal.OK}
    assert len([1 for changes, _ in held.between.commits if len(changes) > 1]) == 1


def test_what_is_changed_by_none_is_written_by_none(held: Held, other: KeptInDocuments) -> None:
    permit_of(other.acquire(claim(), "a"))
    held.store.snapshot("api")
    held.store.snapshot("other")
    assert refusal_of(held.store.acquire(claim(), "b"))
    assert held.between.commits == []


def test_two_lines_have_no_wait_of_one_ticket(held: Held, other: KeptInDocuments) -> None:
    """Two messages of one task, with other claims, arrive at once: the second one is told of the claims."""
    for name in ("api", "disk"):
        other.acquire(claim(of=name), f"h-{name}")
    ticket = Ticket("t:1", 9, 1)
    wait = Wait(Kind.REQUEUE, ticket)
    held.between.before_commit.append(lambda: other.acquire(claim(of="disk"), "t:2", wait))
    with pytest.raises(Exception, match="claims"):
        held.store.acquire(claim(), "t:1", wait)
    assert [len(other.snapshot(name).waiters) for name in ("api", "disk")] == [0, 1]


def test_a_session_finds_its_grant_wherever_it_is(other: KeptInDocuments) -> None:
    other.acquire(claim(), "a")
    ticket = waits(other, "b")
    other.release("a", claim())
    assert other.ask("s", [HeldWait(ticket, tuple(claim()))]).granted == {"b"}
    assert isinstance(other.acquire(claim(), "b2", Wait(Kind.REQUEUE, ticket)), Permit)
    assert other.ask("s").granted == frozenset()


class TestLostAnswers:
    """The commit took effect, and the client does not know it."""

    def test_an_acquire(self, held: Held, other: KeptInDocuments) -> None:
        held.between.lost_answers = 1
        permit_of(held.store.acquire(claim(2), "a"))
        assert other.snapshot("api").occupied == 1

    def test_a_release_says_again_what_it_handed_on(
        self, held: Held, other: KeptInDocuments
    ) -> None:
        other.acquire(claim(), "a")
        park(other, "b")
        held.between.lost_answers = 1
        outgoing = held.store.release("a", claim()).outgoing
        assert [grant.payload for grant in other.take(outgoing)] == [b"b"]

    def test_a_message_is_parked_once(self, held: Held, other: KeptInDocuments) -> None:
        other.acquire(claim(), "a")
        ticket = refusal_of(other.acquire(claim(), "b", Wait(Kind.PARK))).ticket
        assert ticket
        held.between.lost_answers = 1
        held.store.attach(ticket, claim(), b"b")
        assert other.durability(9).parked == 1
        grants = other.take(other.release("a", claim()).outgoing)
        assert [grant.payload for grant in grants] == [b"b"]
        other.sent(grants)
        assert other.durability(9).parked == 0

    def test_a_renewal(self, held: Held, other: KeptInDocuments) -> None:
        permits = [permit_of(other.acquire(claim(3), holder)) for holder in "abc"]
        held.between.lost_answers = 2
        assert {*held.store.renew(permits).values()} == {Renewal.OK}


def test_a_call_that_loses_each_time_is_made_without_others(
    held: Held, other: KeptInDocuments
) -> None:
    """Without it another client changes the resource before each commit of the call, until its time is over."""
    other.acquire(claim(9), "z")
    held.between.alone_after = 3

    def change() -> None:
        if held.between.attempts <= 3:
            other.release(f"h{held.between.attempts}", claim(9))

    held.between.before_commit = [change] * 3
    permit_of(held.store.acquire(claim(9), "a"))
    assert held.between.alone == [False, False, False, True]


@pytest.mark.parametrize("call", ["sent", "promote", "ask"])
def test_a_call_names_the_resources_that_it_writes(
    held: Held, other: KeptInDocuments, call: str
) -> None:
    """Without it an attempt that is alone locks none of them at its beginning, and all in one order."""
    other.acquire(claim(), "a")
    ticket = park(other, "b")
    if call == "sent":
        held.store.sent(other.take(other.release("a", claim()).outgoing))
    elif call == "promote":
        held.store.promote([ticket], "api")
    else:
        held.store.ask("s", [HeldWait(ticket, tuple(claim()))])
    [keys] = held.between.keys
    assert Key(RESOURCE, "api") in keys
