"""Whether a store may keep the messages of waiting tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from celery_semaphore.core.durability import Durability, Safety, server_of
from celery_semaphore.core.parking import BrokerFacts, ParkingDecision, ParkingRoom, decided
from celery_semaphore.core.wait_policy import OnSaturated, WaitPolicy

OWN, OTHER = "run one", "run two"
RABBIT, QUORUM = BrokerFacts(), BrokerFacts(quorum="jobs")
ROOM = ParkingRoom(1000)


def decision(safety: Safety, broker: BrokerFacts, **more: Any) -> ParkingDecision:
    return decided(Durability("redis://here:1/0", safety, "as it says", **more), broker)


@pytest.mark.parametrize(
    ("safety", "server", "broker", "parks", "weaker"),
    [
        (Safety.NEVER, "", RABBIT, False, True),
        (
            Safety.NEVER,
            OWN,
            BrokerFacts(OWN),
            False,
            True,
        ),  # it would evict the broker's messages, too
        (Safety.UNTOLD, OWN, BrokerFacts(OWN), True, False),
        (Safety.UNTOLD, OWN, BrokerFacts(OTHER), False, True),
        (Safety.UNTOLD, "", BrokerFacts(""), False, True),  # two unknown servers are not one
        (Safety.UNTOLD, OWN, RABBIT, False, True),
        (Safety.LOGGED, OWN, BrokerFacts(OWN), True, False),
        (Safety.LOGGED, OWN, BrokerFacts(OTHER), True, False),
        (Safety.LOGGED, "", RABBIT, True, False),
        (Safety.LOGGED, "", QUORUM, False, True),
        (Safety.COMMITTED, "", RABBIT, True, False),
        (Safety.COMMITTED, "", QUORUM, True, False),
    ],
)
def test_a_store_keeps_messages_if_it_is_as_safe_as_the_broker(
    safety: Safety, server: str, broker: BrokerFacts, parks: bool, weaker: bool
) -> None:
    found = decision(safety, broker, server=server)
    assert (found.parks, found.weaker) == (parks, weaker)


def test_what_is_said_of_it() -> None:
    said = str(decision(Safety.UNTOLD, BrokerFacts(OWN), server=OWN))
    assert said == "waiting tasks are parked in redis://here:1/0: it is the broker's own server"
    said = str(decision(Safety.LOGGED, QUORUM))
    assert said.startswith("waiting tasks are kept by workers, not parked in redis://here:1/0: ")
    assert "quorum queue 'jobs'" in said


def test_a_disk_that_may_lie_is_weaker() -> None:
    found = decision(Safety.COMMITTED, RABBIT, doubt="its fsync is off")
    assert (found.parks, found.weaker) == (True, True)
    assert found.why == "as it says, but its fsync is off"


@pytest.mark.parametrize(
    ("run", "role", "server"),
    [
        ("a", "master", "a"),
        ("a", "slave", ""),
        ("", "master", ""),
        (None, "master", ""),
        ("a", None, ""),
    ],
)
def test_only_a_known_primary_is_a_server(run: str | None, role: str | None, server: str) -> None:
    assert server_of(run, role) == server


@pytest.mark.parametrize(
    ("parked", "memory", "before", "lacks"),
    [
        (999, 0.79, False, False),
        (1000, 0.0, False, True),
        (0, 0.8, False, True),
        (899, 0.71, True, False),
        (900, 0.0, True, True),  # it would be full again with the next hundred
        (0, 0.73, True, True),
    ],
)
def test_a_store_is_not_filled_up(parked: int, memory: float, before: bool, lacks: bool) -> None:
    durability = Durability("here", Safety.LOGGED, "", parked=parked, memory=memory)
    assert bool(ROOM.shortage(durability, lacking=before)) is lacks


def test_a_shortage_names_its_figures() -> None:
    durability = Durability("here", Safety.LOGGED, "", parked=1234)
    assert ROOM.shortage(durability, lacking=False) == (
        "it has 1234 parked tasks, and semaphore_park_max_waiting is 1000"
    )
    durability = replace(durability, parked=0, memory=0.834)
    assert ROOM.shortage(durability, lacking=False) == "83% of its maxmemory is used"


@pytest.mark.parametrize(
    ("says", "parks", "then"),
    [
        ("wait", True, "park"),
        ("wait", False, "requeue"),
        ("wait", None, "requeue"),
        ("park", True, "park"),
        ("park", False, "requeue"),
        ("park", None, "park"),
        ("requeue", True, "requeue"),
        ("drop", True, "drop"),
        ("fail", True, "fail"),
    ],
)
def test_an_attempt_waits_as_its_worker_decided(says: str, parks: bool | None, then: str) -> None:
    policy = WaitPolicy(OnSaturated(says), 0.1, 1.0, None)
    assert policy.settled(parks=parks).on_saturated == then
