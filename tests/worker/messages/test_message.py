"""A task message that is published anew: it stays as its sender made it."""

from __future__ import annotations

from types import SimpleNamespace

from celery_semaphore.worker.messages.message import publish_arguments
from celery_semaphore.worker.messages.route import Route


def test_a_message_stays_compressed_and_expires_as_before() -> None:
    message = SimpleNamespace(
        headers={"id": "x", "compression": "application/x-gzip"},
        properties={"expiration": "90000", "correlation_id": "x"},
        body=b"[]",
        content_type="application/json",
        content_encoding="utf-8",
        delivery_info={"exchange": "", "routing_key": "celery"},
    )
    sent = publish_arguments(message, route=Route("", "celery"), header="t", delay=1.0)
    assert (sent["expiration"], sent["correlation_id"]) == (90.0, "x")
    assert sent["compression"] == "application/x-gzip"  # the body is not, by now
    assert set(sent["headers"]) == {"id", "eta", "semaphore_ticket"}
