"""What the exporter says when servers answer, and when they do not. The broker is kombu's own, in memory."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from celery import Celery

from celery_semaphore.metrics.server import text_of
from celery_semaphore.ops.metrics import exporter as module
from celery_semaphore.ops.metrics.answer import ScaleAnswer
from celery_semaphore.ops.metrics.exporter import MAX_QUEUES, STALE_S, Exporter
from celery_semaphore.ops.metrics.exposition import collector_of
from celery_semaphore.ops.metrics.load import Load

from .fakes import FakeStore, key


class House:
    """An exporter with servers that a test takes away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.fake = FakeStore(key(limit=5, held=5, parked=7))
        self.ready: dict[str, int] | Exception = {"q": 3}
        self.loads: dict[str, Load] = {"q": Load(5, 1), "idle": Load()}
        self.reads: list[list[str]] = []
        monkeypatch.setattr(module, "ready_in", self._read)
        monkeypatch.setattr(module, "loads_of_workers", lambda app: self.loads)
        monkeypatch.setattr(module, "unacknowledged", lambda app: 0)
        self.exporter = self.made()

    def made(self, **options: Any) -> Exporter:
        app = Celery("here", broker="memory://", set_as_current=False)
        given: dict[str, Any] = {"interval": 15.0, "max_keys": 100, "declared": []} | options
        return Exporter(app, self.fake.store, clock=lambda: self.now, **given)

    def _read(self, app: Celery, queues: list[str]) -> dict[str, int]:
        self.reads.append(list(queues))
        if isinstance(self.ready, Exception):
            raise self.ready
        return {queue: self.ready[queue] for queue in queues if queue in self.ready}

    def text(self) -> str:
        return text_of([collector_of(self.exporter)]).decode()

    def scale(self, query: str = "queue=q") -> tuple[str, dict[str, Any]]:
        said: list[Any] = []
        body = ScaleAnswer(self.exporter)(
            {"QUERY_STRING": query}, lambda status, headers: said.append((status, dict(headers)))
        )
        ((status, headers),) = said
        assert headers["Content-Type"] == "application/json"
        return status, json.loads(b"".join(body))


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    return House(monkeypatch)


def test_the_state_is_exported(house: House) -> None:
    assert house.exporter.collect()
    text = house.text()
    assert 'celery_semaphore_waiting{semaphore="api",state="parked"} 7.0\n' in text
    assert 'celery_semaphore_limit{semaphore="api",set_by="declared"} 5.0\n' in text
    assert "\ncelery_semaphore_up 1.0\n" in text
    assert "\ncelery_semaphore_keys_skipped 0.0\n" in text
    assert "\ncelery_semaphore_collection_seconds " in text
    assert house.reads == [], "no queue is of interest: the broker is left alone"
    house.text()
    assert house.fake.asked == [1], "a scrape asks nobody"


def test_without_an_answer_of_the_store_its_figures_vanish(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.exporter.collect()
    house.scale()
    house.fake.fail()
    assert not house.exporter.collect()
    samples = [line for line in house.text().splitlines() if not line.startswith("#")]
    assert samples == ["celery_semaphore_up 0.0"]
    assert house.scale()[0] == "503 Service Unavailable"
    house.exporter.collect()
    lines = [r.message for r in caplog.records if "the store" in r.message]
    assert lines == [
        "the store gives no figures: StoreUnavailable: The store did not answer: refused."
    ]
    house.fake.away = None
    assert house.exporter.collect()
    assert "api" in house.text()
    assert house.scale()[0] == "200 OK"


def test_before_the_first_collection_there_is_nothing(house: House) -> None:
    assert "celery_semaphore_up 0.0" in house.text()
    assert house.scale()[0] == "503 Service Unavailable"


def test_a_collection_that_hangs_freezes_nothing(house: House) -> None:
    house.exporter.collect()
    house.now += 2 * 15 + STALE_S
    assert "celery_semaphore_up 1.0" in house.text()
    house.now += 1
    assert "celery_semaphore_up 0.0" in house.text()
    assert "api" not in house.text()
    assert house.scale()[0] == "503 Service Unavailable"


def test_any_error_of_a_driver_is_survived(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.fake.away = PermissionError("no permission for ZSCAN\nkey=canary")
    assert not house.exporter.collect()
    (record,) = caplog.records
    assert record.message == (
        "the store gives no figures: PermissionError: no permission for ZSCAN"
    )
    assert record.exc_info is None


def test_what_can_run_of_a_queue(house: House) -> None:
    house.exporter.collect()
    answer = {"runnable": 9, "waiting": 7, "floor": 1}
    assert house.scale() == ("200 OK", answer)
    assert house.reads == [["q"]]
    assert house.scale() == ("200 OK", answer)
    assert house.reads == [["q"], ["q"]], "until a collection has read it"
    house.exporter.collect()
    house.scale()
    assert len(house.reads) == 3
    text = house.text()
    assert 'celery_semaphore_runnable{queue="q"} 9.0\n' in text
    assert 'celery_semaphore_scale_floor{queue="q"} 1.0\n' in text


def test_a_queue_that_is_named_is_read_from_the_start(house: House) -> None:
    house.exporter = house.made(queues=("q", "new"))
    house.exporter.collect()
    assert house.reads == [["new", "q"]]
    assert 'celery_semaphore_runnable{queue="new"} 0.0\n' in house.text()
    assert house.scale("queue=new")[0] == "200 OK"


def test_an_unknown_queue(house: House) -> None:
    house.exporter.collect()
    status, answer = house.scale("queue=other")
    assert status == "404 Not Found"
    assert answer["error"].startswith("there is no queue 'other'")
    house.exporter.collect()
    assert house.reads == [["other"]], "nobody asks for it again"
    assert house.scale("queue=" + "x" * 10_000)[0] == "404 Not Found"
    assert house.scale("queue=celery")[0] == "200 OK", "the app sends there"
    assert house.scale("queue=idle")[0] == "200 OK", "a worker consumes it"


def test_a_request_without_a_queue(house: House) -> None:
    house.exporter.collect()
    for query in ("", "queue=", "queue=q&queue=r", "other=1"):
        assert house.scale(query)[0] == "400 Bad Request"


def test_without_an_answer_of_the_broker(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.exporter.collect()
    house.scale()
    house.ready = ConnectionError("refused")
    assert house.exporter.collect(), "the store answers"
    assert house.scale()[0] == "503 Service Unavailable"
    assert house.scale("queue=other")[0] == "503 Service Unavailable"
    text = house.text()
    assert "celery_semaphore_runnable{" not in text
    assert "celery_semaphore_scale_floor{" not in text
    assert "celery_semaphore_up 1.0" in text
    assert [r.levelno for r in caplog.records] == [logging.ERROR]
    house.ready = {"q": 0}
    house.exporter.collect()
    assert house.scale()[1]["runnable"] == 6


def test_the_queues_asked_for_are_bounded(house: House) -> None:
    house.ready = {f"q{number}": 1 for number in range(MAX_QUEUES + 5)}
    house.exporter.collect()
    for queue in house.ready:
        assert house.scale(f"queue={queue}")[0] == "200 OK"
    house.exporter.collect()
    assert len(house.reads[-1]) == MAX_QUEUES


def test_an_outage_of_the_broker_ends(house: House) -> None:
    """Also for a queue that was asked for during it only."""
    house.exporter.collect()
    house.ready = ConnectionError("refused")
    assert house.scale()[0] == "503 Service Unavailable"
    assert house.scale()[0] == "503 Service Unavailable"
    assert len(house.reads) == 1, "a request does not wait for a broker that is known to be away"
    house.ready = {"q": 3}
    house.exporter.collect()
    assert house.scale()[0] == "200 OK"
