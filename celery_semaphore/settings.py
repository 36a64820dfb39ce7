"""Define every setting and its default. Durations are in seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from .core.seconds import SHORTEST_LEASE_S
from .core.settings_names import refuse_unread
from .core.store import Store
from .core.wait import LONGEST_DELAY_S, SHORTEST_DELAY_S
from .core.wait_policy import OnSaturated
from .errors import ConfigurationError
from .stores import store_from_url
from .stores.options import Ssl, StoreOptions

VISIBILITY_TIMEOUT_S = 3600.0  # of Redis as the broker, if it is not given one
# How long a worker may keep a message unacknowledged where no visibility timeout is set: RabbitMQ's consumer timeout
# by default, which cannot be read from here. Redis would leave it twice as long.
UNACKED_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Settings:
    """The settings of ``app.conf``, named ``semaphore_<name>`` there (Django: ``CELERY_SEMAPHORE_<NAME>``)."""

    # The store; default: the broker or the result backend, if it can keep permits. It may contain a password.
    url: str = field(repr=False)
    prefix: str = StoreOptions.prefix  # of every key in the store
    lease: float = StoreOptions.lease  # of an unrenewed permit: one length for the whole store
    timeout: float = StoreOptions.timeout  # of one answer of the store, and of a connect
    on_saturated: str = OnSaturated.WAIT
    on_lost: str = "warn"
    wait_timeout: float | None = None  # of a whole wait; None waits for ever
    requeue_delay: float = SHORTEST_DELAY_S  # the shortest countdown
    # The longest; ``longest_delay`` if that is shorter.
    requeue_max_delay: float = LONGEST_DELAY_S
    keep: bool = True  # keep a requeued task's message in the worker, or else publish it again
    publish_timeout: float = 10.0  # of one attempt to put a waiting message back
    broker: str | None = None  # its name in the store; default: its address without credentials
    park_max_size: int = 1_000_000  # bytes of a message; a larger one is requeued instead
    park_max_waiting: int = 100_000  # parked messages of a store; further tasks are requeued
    granted_queues: bool = True  # parked tasks come back by a short queue beside their own
    take_up: float | None = (
        StoreOptions.take_up
    )  # how long a permit waits for a parked task; None: one lease
    track_waiting: bool = False  # whether a waiting task's result shows that it waits
    metrics_port: int = 0  # where a worker answers Prometheus; 0: nowhere
    metrics_address: str = "127.0.0.1"
    eager_timeout: float = 10.0  # how long an eager task waits for a permit
    # How long a copy of a waiting task's message, which a crash left, is recognised. Default: twice the visibility
    # timeout, since the broker may deliver it that late.
    copies_expire: float = 2 * VISIBILITY_TIMEOUT_S
    # The longest delay of a message: a quarter of the visibility timeout, or of half an hour if none is set; not a
    # setting.
    longest_delay: float = inf
    visibility_timeout: float = (
        VISIBILITY_TIMEOUT_S  # of the broker's transport options; not a setting
    )
    transport_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    ssl: Ssl = field(default=None, repr=False)

    @classmethod
    def from_app(cls, app: Any, *, url: str | None = None) -> Settings:
        """Read and convert the settings of a Celery app; raise ``ConfigurationError`` for a wrong one.

        A ``url`` replaces the store of the settings.
        """
        # Do not use app.add_defaults: on Celery 5.7 it would hide what the user has set.
        app.conf.get("semaphore_url")  # the first access loads app.conf
        conf = app.conf
        refuse_unread(conf, [f"semaphore_{name}" for name in (*_OF_THE_URL, *_CONVERTERS)])
        url, options, ssl = _where(conf) if url is None else (url, {}, None)
        visibility = _visibility_timeout(conf)
        given = {name: conf.get(f"semaphore_{name}") for name in _CONVERTERS}
        values = {
            name: _converted(name, value) for name, value in given.items() if value is not None
        }
        for name, known in _CHOICES.items():
            if values.get(name, known[0]) not in known:
                msg = f"semaphore_{name}={values[name]!r} is unknown; it must be one of {', '.join(known)}."
                raise ConfigurationError(msg)
        return cls(
            url=url,
            transport_options=options,
            ssl=ssl,
            longest_delay=(visibility or UNACKED_TIMEOUT_S) / 4,
            visibility_timeout=visibility or VISIBILITY_TIMEOUT_S,
            **{"copies_expire": 2 * (visibility or VISIBILITY_TIMEOUT_S), **values},
        )

    @property
    def longest_keeping(self) -> float:
        """Seconds after which a kept message goes back to the broker.

        They are half of the visibility timeout, or of half an hour if none is set.
        """
        return 2 * self.longest_delay

    def open_store(self) -> Store:
        """Return the store of these settings; it connects when it is first used."""
        options = StoreOptions(
            prefix=self.prefix,
            lease=self.lease,
            take_up=self.take_up,
            timeout=self.timeout,
            transport_options=self.transport_options,
            ssl=self.ssl,
        )
        return store_from_url(self.url, options)


def is_local(url: str) -> bool:
    """Return whether this URL names the memory of each process by itself."""
    return url.startswith("memory:")


def _visibility_timeout(conf: Any) -> float:
    """Return the seconds after which the broker redelivers an unacknowledged message; 0 if not set."""
    return float((conf.get("broker_transport_options") or {}).get("visibility_timeout") or 0)


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not 0 < seconds < inf:
        raise ValueError
    return seconds


def _lease(value: Any) -> float:
    if _seconds(value) < SHORTEST_LEASE_S:
        raise ValueError
    return float(value)


def _seconds_or_zero(value: Any) -> float:
    return 0.0 if float(value) == 0 else _seconds(value)


_OF_THE_URL = ("url", "transport_options", "use_ssl")


def _size(value: Any) -> int:
    if isinstance(value, bool) or int(value) != float(value) or int(value) < 1:
        raise ValueError
    return int(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _port(value: Any) -> int:
    if isinstance(value, bool) or int(value) != float(value) or not 0 <= int(value) < 1 << 16:
        raise ValueError
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError
    return value


_CHOICES: dict[str, tuple[str, ...]] = {
    "on_saturated": tuple(OnSaturated),
    "on_lost": ("warn", "terminate"),
}

_CONVERTERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "prefix": (str, "a string"),
    "lease": (_lease, f"a number of seconds, {SHORTEST_LEASE_S:g} or more"),
    "timeout": (_seconds, "a number of seconds above 0"),
    "on_saturated": (str, "a string"),
    "on_lost": (str, "a string"),
    "wait_timeout": (_seconds, "a number of seconds above 0"),
    "requeue_delay": (_seconds, "a number of seconds above 0"),
    "requeue_max_delay": (_seconds, "a number of seconds above 0"),
    "publish_timeout": (_seconds, "a number of seconds above 0"),
    "copies_expire": (_seconds, "a number of seconds above 0"),
    "park_max_size": (_size, "a whole number of bytes above 0"),
    "park_max_waiting": (_size, "a whole number of messages above 0"),
    "keep": (_flag, "True or False"),
    "granted_queues": (_flag, "True or False"),
    "track_waiting": (_flag, "True or False"),
    "take_up": (_seconds, "a number of seconds above 0"),
    "broker": (_text, "a string"),
    "metrics_port": (_port, "a port number, 0 to 65535"),
    "metrics_address": (_text, "an IP address or a name of this host"),
    "eager_timeout": (_seconds_or_zero, "a number of seconds, 0 or more"),
}


def _converted(name: str, value: Any) -> Any:
    convert, expected = _CONVERTERS[name]
    try:
        return convert(value)
    except (TypeError, ValueError, OverflowError) as error:  # the last one of infinity
        msg = f"semaphore_{name}={value!r} must be {expected}."
        raise ConfigurationError(msg) from error


_REDIS = ("redis://", "rediss://", "sentinel://", "redis+socket://", "socket://", "valkey://")
_BACKENDS = (*_REDIS, "valkeys://", "db+postgresql")

Place = tuple[str, Mapping[str, Any], Ssl]


def _joined(url: Any) -> str:
    return ";".join(url) if isinstance(url, (list, tuple)) else url or ""


def _where(conf: Any) -> Place:
    """Return the store's URL and the options that belong to it."""
    if url := conf.get("semaphore_url"):
        options = conf.get("semaphore_transport_options") or {}
        return str(url), options, conf.get("semaphore_use_ssl")
    broker, other = (_joined(url) for url in (conf.broker_read_url, conf.broker_write_url))
    if broker.startswith(_REDIS):
        if broker != other:  # a process that knows only one of them would count by itself
            msg = (
                "semaphore_url is not set, and broker_read_url and broker_write_url differ: which of the two keeps permits"
                " must be the same for every process. Set semaphore_url to one of them, or to another server."
            )
            raise ConfigurationError(msg)
        return broker, conf.get("broker_transport_options") or {}, conf.get("broker_use_ssl")
    backend = conf.result_backend
    if isinstance(backend, str) and backend.startswith(_BACKENDS):
        options = conf.get("result_backend_transport_options") or {}
        return backend, options, conf.get("redis_backend_use_ssl")
    hint = " Celery has no transport for a Redis Cluster." if "+cluster:" in broker else ""
    msg = (
        f"semaphore_url is not set, and neither the broker nor the result backend can keep permits.{hint}"
        " Set it to the server that keeps permits, for instance redis://localhost:6379/0"
        " (Django: CELERY_SEMAPHORE_URL)."
    )
    raise ConfigurationError(msg)
