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
QUEUES = ("celery", "celery.granted")
PARKED = (
    "{celery-semaphore}:names"  # the names of parked messages, which are the ids of their tasks
)


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
    messages: int = 0  # messages of the broker, in its queues or with a worker


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
            messages=sum(map(self.broker.llen, QUEUES)) + self.broker.hlen("unacked"),
            **self.ask("count"),
        )

    def ask(self, what: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self.service, timeout=10)
        connection.request("GET", f"/{what}")
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def in_server(self) -> set[str]:
        """Return the ids of all tasks in the queues, with a worker, or parked: the store is the same server."""
        with self.broker.pipeline(transaction=True) as all_at_once:
            for queue in QUEUES:
                all_at_once.lrange(queue, 0, -1)
            all_at_once.hvals("unacked")
            all_at_once.hkeys(PARKED)
            *queued, unacked, parked = all_at_once.execute()
        messages = [json.loads(raw) for queue in queued for raw in queue]
        messages += [json.loads(raw)[0] for raw in unacked]
        return {message["headers"]["id"] for message in messages} | {
            name.decode() for name in parked
        }

    def delivered_before(self, moment: float) -> int:
        """Count the messages that were given to a worker before this moment, and not acknowledged since."""
        return int(self.broker.zcount("unacked_index", "-inf", moment))
