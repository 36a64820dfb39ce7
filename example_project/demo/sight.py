"""Read the state of the service, of the store of permits, and of the broker at one moment."""

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any

import redis

from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions

LEASE = 5.0  # as in tasks.py
SEMAPHORE = "api"


@dataclass(frozen=True)
class Sight:
    at: float  # seconds since the epoch
    now: int = 0  # callers inside the service
    most: int = 0
    served: int = 0
    repeated: int = 0
    rejected: int = 0
    cut_off: int = 0
    answered: int = 0  # tasks that were served or rejected
    inside: dict[str, int] | None = None  # by worker
    holders: frozenset[str] = frozenset()
    waiting: int = 0
    messages: int = 0  # messages of the broker, in its queue or with a worker


class Eyes:
    """Reads all states, and changes nothing."""

    def __init__(self, broker: str, service: str) -> None:
        self.service = service
        self.broker = redis.Redis.from_url(broker)
        self.store = store_from_url(broker, StoreOptions(lease=LEASE))

    def look(self) -> Sight:
        api = self.store.snapshot(SEMAPHORE)
        return Sight(
            at=time.time(),
            holders=frozenset(held.holder for held in api.holders),
            waiting=api.waiting,
            messages=self.broker.llen("celery") + self.broker.hlen("unacked"),
            **self.ask("count"),
        )

    def ask(self, what: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self.service, timeout=10)
        connection.request("GET", f"/{what}")
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def in_broker(self) -> set[str]:
        """Return the ids of all tasks in the queue or with a worker."""
        with self.broker.pipeline(transaction=True) as both:
            both.lrange("celery", 0, -1)
            both.hvals("unacked")
            queued, held = both.execute()
        messages = [json.loads(raw) for raw in queued] + [json.loads(raw)[0] for raw in held]
        return {message["headers"]["id"] for message in messages}

    def delivered_before(self, moment: float) -> int:
        """Count the messages that were given to a worker before this moment, and not acknowledged since."""
        return int(self.broker.zcount("unacked_index", "-inf", moment))
