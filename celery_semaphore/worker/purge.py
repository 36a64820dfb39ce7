"""Purge: end parked tasks where they lie, without a broker and without workers.

Each is taken out of its line first, and forgotten once its end is stored. Whoever dies in between leaves it in the
store, which offers it again: a worker sends it, and it is parked anew, unless its end is known by then.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from celery.app.task import Context
from kombu.serialization import loads, prepare_accept_content

from ..core.permit import Grant, Kind
from ..core.store import Store
from ..settings import Settings
from ..stores.asking import maker_of
from .message import Parked, unpacked
from .publisher import Publisher
from .unrun import end_unrun
from .waiting import BringBack

logger = logging.getLogger(__name__)

BATCH = 500  # taken out of the line together


def purge(app: Any, store: Store, resource: str) -> list[str]:
    """End all that are parked there as ``REVOKED``: the ids of their tasks.

    Who comes back by itself lies with the broker, and who was handed a permit is on its way: both go on.
    """
    names, purged = iter(_parked(store, resource)), list[str]()
    while batch := set(islice(names, BATCH)):
        purged += _discard(app, store, batch)
    return purged


def _parked(store: Store, resource: str) -> Iterator[str]:
    """By the names that their messages were given: their tasks' ids."""
    seen = store.snapshot(resource, store.snapshot(resource, 0).waiting)
    for waiter in seen.waiters:
        if waiter.kind is Kind.PARK:
            yield maker_of(waiter.id).rpartition(":")[0]


def _discard(app: Any, store: Store, names: Collection[str]) -> list[str]:
    done, others, outgoing = list[Grant](), list[Grant](), store.end(sorted(names))
    try:
        while grants := store.take(outgoing):
            for grant in grants:
                message = unpacked(grant.payload)
                if grant.token or message.headers["id"] not in names:
                    others.append(grant)
                else:
                    _end(app, message)
                    done.append(grant)
    finally:
        store.sent(done)
        if others:
            _send(app, store, others)
    return [unpacked(grant.payload).headers["id"] for grant in done]


def _end(app: Any, message: Parked) -> None:
    task = app.tasks.get(message.headers["task"]) or app.Task()
    end_unrun(task, Context({**message.headers, **_embedded(app, message)}), "purged")


def _embedded(app: Any, message: Parked) -> dict[str, Any]:
    """The chain and the chord that it belongs to."""
    try:
        embedded = _loaded(app, message)[2]
    except Exception as error:  # noqa: BLE001 - whatever it is, nobody here can read it
        # Only what kind of error it is: its text may have the whole body in it.
        logger.warning(
            "task %s: its chord cannot be told: %s", message.headers["id"], type(error).__name__
        )
        return {}
    return embedded or {}


def _loaded(app: Any, message: Parked) -> Any:
    accept = prepare_accept_content(app.conf.accept_content)  # type: ignore[no-untyped-call]
    kind, encoding = message.content_type, message.content_encoding
    return loads(message.body, kind, encoding, accept)  # type: ignore[no-untyped-call]


def _send(app: Any, store: Store, grants: Collection[Grant]) -> None:
    """They were in the outbox, too, and would be offered again only when their permits have ended."""
    settings = Settings.from_app(app)
    publisher = Publisher(app, settings.publish_timeout)
    try:
        BringBack(
            store, publisher, frozenset(), granted=settings.granted_queues, grants=grants
        ).run()
    except Exception as error:  # noqa: BLE001 - whatever it is, they stay in the store
        logger.warning("parked tasks on their way come later: %r", error)
    finally:
        publisher.disconnect()
