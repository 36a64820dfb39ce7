"""Find out which kind of broker an app uses, and what it says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from celery import Celery
from kombu.utils.url import parse_url

from ...core.durability import server_of
from ...core.parking import BrokerFacts

ANSWER_S = 2.0  # for each answer of the broker about its server
SENTINEL = "sentinel"
# Transport options that select one of several brokers at the same address.
SELECTING = ("master_name", "region", "global_keyprefix", "queue_name_prefix")


def is_amqp(app: Celery) -> bool:
    """Return whether the broker that this app's workers consume from is RabbitMQ, or another one with AMQP."""
    return bool(app.connection_for_read().transport.driver_type == "amqp")


def name_of_broker(app: Celery) -> str:
    """Name the broker that this app's workers consume from, by its address without credentials.

    It is asked nothing, so the name is the same after it was away, or was made anew.
    """
    connection = app.connection_for_read()
    kind, default = connection.transport.driver_type, connection.transport.default_port
    addresses = [_address(**parse_url(url)) for url in connection.alt]
    addresses = addresses or [_address(connection.hostname, connection.port)]
    hosts = sorted(
        {f"{host}:{port or default}" if port or default else host for host, port in addresses}
    )
    where = str(connection.virtual_host or "").removeprefix("/")
    if kind == "redis":
        where = where or "0"
    options = connection.transport_options or {}
    chosen = [f"{name}={options[name]}" for name in SELECTING if options.get(name)]
    return " ".join([f"{kind}://{','.join(hosts)}/{where}", *chosen])


def _address(hostname: str | None, port: int | None, **_: Any) -> tuple[str, int | None]:
    # That of a socket is a whole URL, perhaps with a password.
    return (hostname or "").rpartition("@")[2].removeprefix("socket://").lower(), port


def facts_of_broker(app: Celery) -> BrokerFacts:
    """Return what the broker says of itself; raise the transport's error if it does not answer.

    RabbitMQ is not asked: the app declares its queues.
    """
    if app.connection_for_read().transport.driver_type != "redis":
        return BrokerFacts(quorum=_quorum_queue(app))
    return BrokerFacts(server=_server(app))


def _quorum_queue(app: Celery) -> str:
    queues: Mapping[str, Any] = app.amqp.queues.consume_from
    return next((name for name, queue in queues.items() if _is_quorum(queue)), "")


def _is_quorum(queue: Any) -> bool:
    return bool((queue.queue_arguments or {}).get("x-queue-type") == "quorum")


def _server(app: Celery) -> str:
    """Name the running server; return an empty text if several may answer, or if it does not tell."""
    from redis.exceptions import ResponseError  # noqa: PLC0415 - only with this broker is it installed for sure

    with connected(app, ANSWER_S) as connection:
        if connection.transport_cls == SENTINEL or len(connection.alt) > 1:
            return ""
        try:
            info = connection.default_channel.client.info("all")
        except ResponseError:  # INFO is forbidden
            return ""
    return server_of(info.get("run_id"), info.get("role"))


def bounded(connection: Any, timeout: float) -> Any:
    """Return a connection like this one, not made yet, that waits for no answer longer than ``timeout`` seconds."""
    options: Mapping[str, Any] = {}
    if connection.transport.driver_type == "amqp":
        options = {"read_timeout": timeout, "write_timeout": timeout}
    elif connection.transport.driver_type == "redis":
        options = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    options = {**connection.transport_options, **options}
    return connection.clone(connect_timeout=timeout, transport_options=options)


@contextmanager
def connected(app: Celery, timeout: float) -> Iterator[Any]:
    """Connect to the broker that workers read from; no answer takes longer than ``timeout`` seconds."""
    with bounded(app.connection_for_read(), timeout) as made:
        others = max(len(made.alt) - 1, 0)
        made.ensure_connection(max_retries=others, timeout=timeout)
        yield made
