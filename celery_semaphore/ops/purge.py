"""End parked tasks in the store, without a broker and without workers.

Each task is taken out of its line first, and forgotten once its result is stored. If the process dies in between, the
store offers the task again: a worker sends its message, and it is parked anew unless its result is known by then.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from celery.app.task import Context
from kombu.serialization import loads, prepare_accept_content

from ..core.grant import Grant
from ..core.names import task_id_of
from ..core.store import Store
from ..core.ticket import Ticket
from ..core.wait import Kind
from ..settings import Settings
from ..worker.messages.bring_back import BringBack
from ..worker.messages.brokers import Brokers
from ..worker.messages.consumed_queues import ConsumedQueues
from ..worker.messages.parked import Parked, unpacked
from ..worker.messages.publisher import Publisher
from ..worker.pool_process.revoked import store_revoked

logger = logging.getLogger(__name__)

BATCH = 500  # tasks that are taken out of the line in one call


def purge(app: Any, store: Store, resource: str) -> list[str]:
    """End all tasks that are parked at this resource as ``REVOKED``; return their ids.

    A requeued task has its message elsewhere, and a granted task is on its way: both go on.
    """
    names, purged = iter(_parked(store, resource)), list[str]()
    while batch := set(islice(names, BATCH)):
        purged += _discard(app, store, batch)
    return purged


def _parked(store: Store, resource: str) -> Iterator[str]:
    """Yield the ids of the parked tasks, which are the names of their messages."""
    seen = store.snapshot(resource, store.snapshot(resource, 0).waiting)
    for waiter in seen.waiters:
        if waiter.kind is Kind.PARK:
            yield _task_of(waiter.ticket)


def _discard(app: Any, store: Store, names: Collection[str]) -> list[str]:
    done, others, outgoing = list[Grant](), list[Grant](), store.end(sorted(names))
    try:
        while grants := store.take(outgoing):
            for grant in grants:
                message = unpacked(grant.payload)
                if grant.token or _task_of(grant.ticket) not in names:
                    others.append(grant)
                else:
                    _end(app, _task_of(grant.ticket), message)
                    done.append(grant)
    finally:
        store.sent(done)
        if others:
            _send(app, store, others)
    return [_task_of(grant.ticket) for grant in done]


def _task_of(ticket: Ticket) -> str:
    """Return the id of the task that waits with this ticket; a message of protocol 1 has it in its body."""
    return task_id_of(ticket.nonce)


def _end(app: Any, task_id: str, message: Parked) -> None:
    request = Context({**message.headers, **_from_body(app, task_id, message), "id": task_id})
    store_revoked(app.tasks.get(request.get("task")) or app.Task(), request, "purged")


def _from_body(app: Any, task_id: str, message: Parked) -> dict[str, Any]:
    """Read the chain and the chord that the task belongs to; by protocol 1 its name and group as well."""
    try:
        body = _loaded(app, message)
        if isinstance(body, dict):  # protocol 1, which knows no chain
            group = body.get("taskset") or body.get("group")
            return {"task": body["task"], "group": group, "chord": body.get("chord")}
        return dict(body[2] or {})
    except Exception as error:  # noqa: BLE001 - whatever it is, the body cannot be read here
        # Log only the type of the error: its text may contain the whole body.
        logger.warning("task %s: its chord cannot be determined: %s", task_id, type(error).__name__)
        return {}


def _loaded(app: Any, message: Parked) -> Any:
    accept = prepare_accept_content(app.conf.accept_content)
    kind, encoding = message.content_type, message.content_encoding
    return loads(message.body, kind, encoding, accept)


def _send(app: Any, store: Store, grants: Collection[Grant]) -> None:
    """Send messages that were in the outbox, too: they would be offered again only when their grants have ended."""
    settings = Settings.from_app(app)
    publisher = Publisher(app, settings.publish_timeout)
    try:
        brokers = Brokers(app, settings, lambda: store)
        BringBack(
            store,
            publisher,
            frozenset(),
            queues=ConsumedQueues(lambda: store, lambda: brokers.own),
            brokers=brokers,
            found=lambda _: None,
            sent_to=lambda _: None,  # nothing sweeps here
            grants=grants,
        ).run()
    except Exception as error:  # noqa: BLE001 - whatever it is, they stay in the store
        logger.warning("granted parked tasks are sent later: %r", error)
    finally:
        publisher.disconnect()
