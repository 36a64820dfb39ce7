"""The catalogue of all metrics: the code, the board and the alarms take their names from here.

No label is ever a key of a semaphore: keys come from arguments of tasks, so they are personal data, and unbounded.
The names for OpenTelemetry follow its conventions for connection pools, ``db.client.connection.*``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "celery_semaphore_"
OTHER = "_other"  # the label value for all names above the bound
OF_A_TASK = ("semaphore", "task")  # labels
MAX_SEMAPHORES = 200  # values of the label ``semaphore``, and as many of the label ``task``

DURATION_BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0)
TAKE_UP_BUCKETS_S = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
STORE_BUCKETS_S = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


class MetricType(StrEnum):
    """What Prometheus calls the type of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``name`` is that of Prometheus, without the suffix ``_total`` of a counter."""

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()
    otel: str = ""  # the name for OpenTelemetry; empty: it is not exposed there
    unit: str = ""  # for OpenTelemetry
    buckets: tuple[float, ...] = ()

    @property
    def exposed(self) -> str:
        """The name of its samples in Prometheus; for a histogram without the suffixes."""
        return f"{self.name}_total" if self.type is MetricType.COUNTER else self.name


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, MetricType.GAUGE, text, labels)


def _counter(name: str, text: str, *labels: str, otel: str, unit: str) -> Metric:
    return Metric(PREFIX + name, MetricType.COUNTER, text, labels, f"celery_semaphore.{otel}", unit)


def _histogram(
    name: str, text: str, *labels: str, otel: str, buckets: tuple[float, ...] = DURATION_BUCKETS_S
) -> Metric:
    return Metric(
        PREFIX + name,
        MetricType.HISTOGRAM,
        text,
        labels,
        f"celery_semaphore.{otel}",
        "s",
        buckets,
    )


# -- State, which the exporter reads from the store.

LIMIT = _gauge(
    "limit",
    "Limit in force of one key; the smallest one if those of its keys differ.",
    "semaphore",
    "set_by",  # "declared" or "operator"
)
PERMITS = _gauge(
    "permits",
    "Weights of permits and of grants that are not taken up yet, of all keys.",
    "semaphore",
    "state",  # "held" or "granted"
)
CAPACITY = _gauge("capacity", "Limits of all keys in use, summed.", "semaphore")
KEYS = _gauge(
    "keys",
    "Keys in use; a semaphore without keys counts as one.",
    "semaphore",
    "state",  # "used", "saturated" or "paused"; a saturated or a paused one is also used
)
WAITING = _gauge(
    "waiting",
    "Waiting tasks and calls by where they are: parked in the store, held by a worker or a process, or in transit.",
    "semaphore",
    "state",  # "parked", "held" or "in_transit"
)
IDLE_WHILE_WAITING = _gauge(
    "idle_while_waiting",
    "Free permits of keys where reachable tasks wait; about 0, or something is stuck.",
    "semaphore",
)
OLDEST_WAIT = _gauge(
    "oldest_wait_seconds", "Time that the oldest waiting task has waited.", "semaphore"
)
UNSATISFIABLE = _gauge(
    "unsatisfiable",
    "Waits that are set aside because their weight is above the limit in force.",
    "semaphore",
)
OUTBOX = _gauge(
    "outbox", "Parked messages that were granted or have ended, and are not sent yet.", "semaphore"
)
OUTBOX_OLDEST = _gauge(
    "outbox_oldest_seconds", "Time since the oldest message in the outbox was granted.", "semaphore"
)

# -- The exporter itself.

UP = _gauge("up", "1 if the last collection from the store succeeded, else 0.")
COLLECTION_SECONDS = _gauge("collection_seconds", "Duration of the last collection.")
KEYS_SKIPPED = _gauge("keys_skipped", "Keys that the last collection left out, by --max-keys.")
RUNNABLE = _gauge(
    "runnable",
    "Tasks that run or could run now: ready in the queue and its granted queue, prefetched, and running.",
    "queue",
)
SCALE_FLOOR = _gauge(
    "scale_floor",
    "The fewest workers that an autoscaler may leave for this queue: 0 or 1.",
    "queue",
)

# -- Events, which each worker counts in its main process.

ACQUIRED = _counter(
    "acquired",
    "Permits that tasks acquired.",
    *OF_A_TASK,
    otel="permit.acquired",
    unit="{permit}",
)
REFUSED = _counter(
    "refused",
    "Attempts of tasks that got no permit.",
    *OF_A_TASK,
    "reason",
    otel="permit.refused",
    unit="{attempt}",
)
PARKED = _counter(
    "parked",
    "Messages that were parked in the store.",
    *OF_A_TASK,
    otel="message.parked",
    unit="{message}",
)
PUT_BACK = _counter(
    "put_back",
    "Messages that were published again, to come back later.",
    *OF_A_TASK,
    otel="message.put_back",
    unit="{message}",
)
BROUGHT_BACK = _counter(
    "brought_back",
    "Parked messages that were sent to their queue.",
    *OF_A_TASK,
    otel="message.brought_back",
    unit="{message}",
)
ENDED_UNRUN = _counter(
    "ended_unrun",
    "Waits that ended without a run.",
    *OF_A_TASK,
    "how",  # "dropped", "failed", "timed_out", "revoked" or "expired"
    otel="wait.ended_unrun",
    unit="{wait}",
)
LOST = _counter(
    "lost",
    "Permits with a lease that ended while their tasks ran.",
    *OF_A_TASK,
    "reason",
    otel="permit.lost",
    unit="{permit}",
)
RESTORED = _counter(
    "restored",
    "Permits that the store had forgotten and took back.",
    *OF_A_TASK,
    otel="permit.restored",
    unit="{permit}",
)
COPIES = _counter(
    "copies",
    "Second messages of a task that were dropped, because another one ran.",
    *OF_A_TASK,
    otel="message.copies",
    unit="{message}",
)
WAIT_SECONDS = _histogram(
    "wait_seconds",
    "Time from a task's first refusal to its permit; 0 for a task that was never refused.",
    "semaphore",
    otel="wait.duration",
)
TAKE_UP_SECONDS = _histogram(
    "take_up_seconds",
    "Time from the grant of a waiting task to its permit: its way to a process.",
    "semaphore",
    otel="permit.take_up.duration",
    buckets=TAKE_UP_BUCKETS_S,
)
HELD_SECONDS = _histogram(
    "held_seconds", "Time that tasks held their permits.", "semaphore", otel="hold.duration"
)
STORE_SECONDS = _histogram(
    "store_seconds",
    "Time of one answer of the store, as the worker sees it.",
    "operation",
    otel="store.duration",
    buckets=STORE_BUCKETS_S,
)
STORE_ERRORS = _counter(
    "store_errors",
    "Calls that the store did not answer, or answered with an error.",
    "operation",
    otel="store.errors",
    unit="{call}",
)

# -- A worker's state.

WORKER_PROCESSES = _gauge(
    "worker_processes",
    "Processes of the worker's pool; threads or greenlets in other pools.",
    "state",  # "busy" or "idle"
)
WORKER_HELD_MESSAGES = _gauge(
    "worker_held_messages", "Messages of waiting tasks that the worker holds, unacknowledged."
)

OF_THE_STORE = (
    *(LIMIT, PERMITS, CAPACITY, KEYS, WAITING, IDLE_WHILE_WAITING, OLDEST_WAIT, UNSATISFIABLE),
    *(OUTBOX, OUTBOX_OLDEST),
)
OF_THE_EXPORTER = (UP, COLLECTION_SECONDS, KEYS_SKIPPED, RUNNABLE, SCALE_FLOOR)
OF_EVENTS = (
    *(ACQUIRED, REFUSED, PARKED, PUT_BACK, BROUGHT_BACK, ENDED_UNRUN, LOST, RESTORED, COPIES),
    *(WAIT_SECONDS, TAKE_UP_SECONDS, HELD_SECONDS, STORE_SECONDS, STORE_ERRORS),
)
OF_A_WORKER = (WORKER_PROCESSES, WORKER_HELD_MESSAGES)
ALL = (*OF_THE_STORE, *OF_THE_EXPORTER, *OF_EVENTS, *OF_A_WORKER)
