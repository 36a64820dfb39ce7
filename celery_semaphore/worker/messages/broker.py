"""Find out which kind of broker an app uses."""

from __future__ import annotations

from celery import Celery


def is_amqp(app: Celery) -> bool:
    """Return whether the broker that this app's workers consume from is RabbitMQ, or another one with AMQP."""
    return bool(app.connection_for_read().transport.driver_type == "amqp")
