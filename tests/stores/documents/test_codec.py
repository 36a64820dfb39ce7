"""What is encoded is decoded as it was, and each document says its format."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from celery_semaphore.core.claim import HIGHEST, Claim
from celery_semaphore.core.formats import FORMAT, NewerFormat
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind
from celery_semaphore.stores.encoding import ResourceClaim, resource_claims
from celery_semaphore.stores.engine import codec
from celery_semaphore.stores.engine.codec import WaitTexts, decode_resource, encode_resource
from celery_semaphore.stores.engine.decisions import Decisions, Paused
from celery_semaphore.stores.engine.declared import Declared
from celery_semaphore.stores.engine.epoch import Epoch
from celery_semaphore.stores.engine.known_messages import KnownMessages
from celery_semaphore.stores.engine.resource import Entry, KeptRoom, Resource
from celery_semaphore.stores.engine.stored_wait import StoredWait

# The same each time, and on a machine however busy.
STEADY = settings(deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])

times = st.integers(0, 9_999_999_999_999_999)
counts = st.integers(0, HIGHEST)
# Line feeds, too, and halves of characters; but of two halves that follow each other JSON makes the character.
names = st.text(st.characters(), max_size=30).filter(
    lambda text: json.loads(json.dumps(text)) == text
)
tickets = st.builds(Ticket, names.filter(bool), st.integers(0, 255), times)
claims = st.builds(Claim, names, st.none() | names, st.none() | counts, st.integers(1, 9))
lines = st.lists(claims, min_size=1, max_size=3).map(tuple)
others = st.lists(st.builds(ResourceClaim, names, st.none() | counts, counts), min_size=1)
waits = st.builds(
    lambda claims, own, **parts: StoredWait(
        claims=claims, resource_claims=tuple(own or resource_claims(claims)), **parts
    ),
    lines,
    st.none() | others,
    ticket=tickets,
    kind=st.sampled_from(Kind),
    due=times,
    payload=st.none() | st.binary(max_size=40),
    name=names,
    broker=names,
    ends=st.just(inf) | times,
    ended=st.booleans(),
    session=names,
    epoch=times,
    away=st.booleans(),
    aside=st.booleans(),
    keeps=times,
)
permits = st.builds(Entry, times, times, counts, times, times, restored=st.booleans())
grants = st.builds(Entry, times, times, counts, times, times, tickets, st.booleans())
declared = st.builds(Declared, counts, st.none() | counts, times, names, names)
means = st.none() | st.integers(0, 10**15) | st.floats(0, 1e15)
resources = st.builds(
    Resource,
    st.just("api"),
    holders=st.dictionaries(names, permits),
    grants=st.dictionaries(names, grants),
    tickets=st.lists(waits, max_size=4).map(lambda some: {each.nonce: each for each in some}),
    outbox=st.dictionaries(names, times),
    kept=st.dictionaries(names, st.builds(KeptRoom, tickets, counts, times)),
    token=times,
    declared=st.none() | declared,
    mean=means,
    mean_samples=counts,
    latest=means,
    reaped_at=times,
)
epochs = st.builds(
    Epoch,
    **dict.fromkeys(
        ("lease", "take_up", "slow", "slow_until", "id", "created", "grace_until", "called"), times
    ),
    restarted=st.booleans(),
    silent_since=times,
    awaited_until=times,
)
ends = st.builds(Paused, times, times)
decisions = st.builds(
    Decisions,
    st.dictionaries(names, st.tuples(counts, times)),
    st.dictionaries(names, ends),
)
messages = st.builds(
    KnownMessages, st.none() | tickets, times, st.none() | names, names, st.booleans()
)


@given(resources)
@settings(STEADY, max_examples=50)
def test_a_resource(at: Resource) -> None:
    body = encode_resource(at, WaitTexts())
    found, texts = decode_resource("api", body)
    assert found == at
    assert [*found.tickets] == [*at.tickets]
    assert encode_resource(found, texts) == body


@given(waits)
@STEADY
def test_a_wait_that_changed_has_another_text(wait: StoredWait) -> None:
    at = Resource("api", tickets={wait.nonce: wait})
    found, texts = decode_resource("api", encode_resource(at, WaitTexts()))
    found.tickets[wait.nonce] = replace(wait, due=wait.due + 1)
    assert decode_resource("api", encode_resource(found, texts))[0] == found


@given(epochs, decisions)
@STEADY
def test_the_stores_own(epoch: Epoch, decided: Decisions) -> None:
    assert codec.decode_store(codec.encode_store(epoch, decided)) == (epoch, decided)


@given(messages)
@STEADY
def test_messages(known: KnownMessages) -> None:
    assert codec.decode_messages(codec.encode_messages(known)) == known


@given(times, st.none() | counts, st.dictionaries(names, times), names, st.binary())
@STEADY
def test_small_ones(at: int, room: int | None, said: dict[str, int], name: str, raw: bytes) -> None:
    assert codec.decode_session(codec.encode_session(at, room)) == (at, room)
    assert codec.decode_times(codec.encode_times(said)) == said
    assert codec.decode_until(codec.encode_until(at)) == at
    assert codec.decode_name(codec.encode_name(name)) == name
    assert codec.decode_payload(codec.encode_payload(raw)) == raw


def test_a_long_one_is_compressed_and_a_short_one_can_be_read() -> None:
    short, long = (codec.encode_payload(b"a" * size) for size in (10, 2000))
    assert json.loads(short)["v"] == FORMAT
    assert json.loads(zlib.decompress(long))["v"] == FORMAT
    assert len(long) < 200


def newer(body: bytes) -> bytes:
    return json.dumps(json.loads(body) | {"v": FORMAT + 1}).encode()


@pytest.mark.parametrize(
    ("decode", "body"),
    [
        (lambda body: decode_resource("a", body), encode_resource(Resource("a"), WaitTexts())),
        (codec.decode_messages, codec.encode_messages(KnownMessages(None, 1))),
        (codec.decode_session, codec.encode_session(1, None)),
        (codec.decode_times, codec.encode_times({})),
        (codec.decode_until, codec.encode_until(1)),
        (codec.decode_name, codec.encode_name("a")),
        (codec.decode_payload, codec.encode_payload(b"a")),
    ],
)
def test_a_newer_one_is_left_alone(decode: Any, body: bytes) -> None:
    decode(body)
    with pytest.raises(NewerFormat):
        decode(newer(body))


def test_of_a_newer_store_its_format_is_known() -> None:
    body = newer(codec.encode_store(Epoch(lease=5), Decisions({"api": (3, 1)})))
    assert codec.decode_store(body) == (Epoch(format=FORMAT + 1), Decisions())
