"""From an event to what Prometheus gets: names, labels and their bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from celery_semaphore.core import events
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.events import Event, Loss, WaitEnd
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason
from celery_semaphore.metrics.catalogue import (
    COPIES,
    MAX_SEMAPHORES,
    OF_A_WORKER,
    OF_EVENTS,
    OTHER,
    TAKE_UP_SECONDS,
)
from celery_semaphore.metrics.figures import Figures
from celery_semaphore.metrics.labels import LONGEST_TASK
from celery_semaphore.metrics.prometheus import CountsCollector
from celery_semaphore.metrics.recorder import Recorder
from celery_semaphore.metrics.server import serve

from .scraped import Scraped, text_from


def permit(*semaphores: str, key: str | None = None) -> Permit:
    claims = tuple(Claim(name, key, 1) for name in semaphores)
    return Permit("x:1", 1, claims, 1.0, 31.0, 1)


def counted(*happened: Event) -> Scraped:
    recorder = Recorder(lambda _: "t")
    for event in happened:
        recorder(event)
    server = serve([CountsCollector(recorder)], "127.0.0.1", 0)
    try:
        return Scraped(text_from(server.port))
    finally:
        server.close()


WHO: dict[str, str] = {"semaphore": "a", "task": "t"}
COUNTERS: list[tuple[Event, str, dict[str, str]]] = [
    (events.PermitAcquiredEvent(permit("a"), "t", 2.0, 0.1), "acquired_total", WHO),
    (
        events.AttemptRefusedEvent(("a",), "t", Reason.SATURATED),
        "refused_total",
        WHO | {"reason": "saturated"},
    ),
    (events.MessageParkedEvent(("a",), "t"), "parked_total", WHO),
    (events.MessagePutBackEvent(("a",), "t"), "put_back_total", WHO),
    (events.MessageBroughtBackEvent(("a",), "t"), "brought_back_total", WHO),
    (
        events.WaitEndedEvent(("a",), "t", WaitEnd.EXPIRED),
        "ended_unrun_total",
        WHO | {"how": "expired"},
    ),
    (
        events.PermitLostEvent(permit("a"), "its secret key", Loss.ENDED),
        "lost_total",
        WHO | {"reason": "ended"},
    ),
    (events.PermitRestoredEvent(permit("a")), "restored_total", WHO),
    (events.CopyDroppedEvent(("a",), "t"), "copies_total", WHO),
    (
        events.StoreCallEvent("renew", 0.1, failed=True),
        "store_errors_total",
        {"operation": "renew"},
    ),
]


@pytest.mark.parametrize(
    ("token", "took"), [(7_000_000, 2.5), (9_500_000, None), (9_500_001, None)]
)
def test_the_time_to_take_up_a_grant(token: int, took: float | None) -> None:
    """A permit that was not granted before has the time for its token, or one more than the last one."""
    acquired = replace(permit("a"), token=token, acquired_at=9.5)
    found = Figures().of(events.PermitAcquiredEvent(acquired, "t", 0.0, 0.0))
    times = [value for metric, _, value in found if metric is TAKE_UP_SECONDS]
    assert times == ([] if took is None else [took])


@pytest.mark.parametrize(("event", "name", "labels"), COUNTERS, ids=[each[1] for each in COUNTERS])
def test_each_event_has_its_counter(event: Event, name: str, labels: dict[str, str]) -> None:
    scraped = counted(event, event)
    assert scraped.samples[name, frozenset(labels.items())] == 2
    assert "secret" not in str(scraped.samples)


def test_each_metric_of_events_comes_from_an_event() -> None:
    figures = Figures()
    more: list[Event] = [
        events.PermitReleasedEvent(permit("a"), 1.0),
        events.StoreCallEvent("renew", 0.1, failed=False),
    ]
    seen = {m.name for e in [*(c[0] for c in COUNTERS), *more] for m, _, _ in figures.of(e, "t")}
    assert seen == {metric.name for metric in OF_EVENTS}
    assert not any(metric.otel for metric in OF_A_WORKER)


def test_an_event_of_several_semaphores_counts_once_for_each() -> None:
    twice = Permit("x:1", 1, (Claim("a", "1", 1), Claim("b", None, 1), Claim("a", "2", 1)), 0, 0, 1)
    scraped = counted(
        events.PermitAcquiredEvent(twice, "t", 0.0, 0.1), events.PermitReleasedEvent(twice, 2.0)
    )
    assert scraped.get("acquired_total", semaphore="a") == 1
    assert scraped.get("acquired_total", semaphore="b") == 1
    assert scraped.get("held_seconds_count", semaphore="a") == 1
    assert scraped.get("store_seconds_count", operation="acquire") == 1


def test_times_fall_into_buckets_that_include_their_bound() -> None:
    waits = [-1.0, 0.0, 0.01, 0.02, 3600.0, 1e6]
    scraped = counted(*(events.PermitAcquiredEvent(permit("a"), "t", w, 0.0) for w in waits))
    buckets = {
        dict(labels)["le"]: value
        for (name, labels), value in scraped.samples.items()
        if name == "wait_seconds_bucket"
    }
    assert [buckets[le] for le in ("0.01", "0.03", "1000.0", "3600.0", "+Inf")] == [3, 4, 4, 5, 6]
    assert scraped.get("wait_seconds_sum") == pytest.approx(3600.03 + 1e6)
    assert scraped.get("wait_seconds_count") == 6


def test_an_acquire_without_an_answer_is_an_error_of_the_store() -> None:
    asked = events.AttemptRefusedEvent(("a",), "t", "unreachable", answered=False)
    unasked = events.AttemptRefusedEvent(("a",), "t", "unreachable")
    scraped = counted(asked, unasked)
    assert scraped.get("refused_total", reason="unreachable") == 2
    assert scraped.get("store_errors_total", operation="acquire") == 1


def test_labels_are_few() -> None:
    many = [
        events.PermitAcquiredEvent(permit(f"s{n}"), f"t{n}", 0.0, 0.1)
        for n in range(MAX_SEMAPHORES + 50)
    ]
    scraped = counted(*many, *many)
    for label in ("semaphore", "task"):
        assert len(scraped.labels("acquired_total", label)) == MAX_SEMAPHORES + 1
        assert scraped.get("acquired_total", **{label: OTHER}) == 100
    assert scraped.get("acquired_total") == 2 * len(many)


@pytest.mark.parametrize(
    "name", ['"', "\\", "a\nb", "é 水", "\ud800", "\0", "{}", " ", "x" * 10_000], ids=ascii
)
def test_any_name_can_be_scraped(name: str) -> None:
    scraped = counted(events.PermitAcquiredEvent(permit(name), name, 0.0, 0.1))
    (semaphore,) = scraped.labels("acquired_total", "semaphore")
    (task,) = scraped.labels("acquired_total", "task")
    assert scraped.get("acquired_total") == 1
    assert len(semaphore) <= 128
    assert task == name.encode("utf-8", "replace").decode()[:LONGEST_TASK]
    # Messages that come back from a store name a long semaphore by its beginning: it must be the same series.
    cut = events.MessageBroughtBackEvent((semaphore,), name)
    again = counted(events.MessageParkedEvent((name,), name), cut)
    assert again.labels("parked_total", "semaphore") == {semaphore}
    assert again.labels("brought_back_total", "semaphore") == {semaphore}


def test_no_label_shows_a_key() -> None:
    scraped = counted(events.PermitAcquiredEvent(permit("a", key="secret"), "t", 0.0, 0.1))
    assert "secret" not in str(scraped.samples)


def test_a_listener_waits_for_nothing() -> None:
    """A signal handler announces ends of tasks, whatever it interrupted: also a thread that counts."""
    recorder = Recorder(lambda _: "t")
    with recorder.counted():
        recorder(events.CopyDroppedEvent(("a",), "t"))
    with recorder.counted() as tally:
        assert tally.counts(COPIES) == {("a", "t"): 1}


def test_what_nothing_wants_is_not_kept() -> None:
    recorder = Recorder(lambda _: "t", wanted=lambda: False)
    recorder(events.CopyDroppedEvent(("a",), "t"))
    with recorder.counted() as tally:
        assert not any(tally.counts(metric) for metric in OF_EVENTS)
    assert not recorder._queue


def test_the_counters_of_alarms_exist_before_they_count() -> None:
    """An alarm on the increase of a counter misses an event that makes the counter."""
    zeros = {(metric.name, labels[2:]) for metric, labels, value in Figures().zeros(["api"], "t")}
    assert zeros == {
        ("celery_semaphore_acquired", ()),
        *(("celery_semaphore_lost", (str(loss),)) for loss in Loss),
        *(("celery_semaphore_ended_unrun", (str(end),)) for end in WaitEnd),
    }


def test_tasks_without_a_semaphore_take_no_label() -> None:
    figures = Figures()
    for n in range(2 * MAX_SEMAPHORES):
        assert not list(figures.zeros([], f"plain-{n}"))
    assert {labels[1] for _, labels, _ in figures.zeros(["api"], "limited")} == {"limited"}
