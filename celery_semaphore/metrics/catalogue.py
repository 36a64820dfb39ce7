"""The catalogue of all metrics: the code, the board and the alarms take their names from here.

No label is ever a key of a semaphore: keys come from arguments of tasks, so they are personal data, and unbounded.
The names for OpenTelemetry follow its conventions for connection pools, ``db.client.connection.*``.
"""

from __future__ import annotations

from .metric import counter, gauge, histogram

OTHER = "_other"  # the label value for all names above the bound
OF_A_TASK = ("semaphore", "task")  # labels
MAX_SEMAPHORES = 200  # values of the label ``semaphore``, and as many of the label ``task``

TAKE_UP_BUCKETS_S = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
STORE_BUCKETS_S = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)

# -- State, which the exporter reads from the store.

LIMIT = gauge(
    "limit",
    "Limit in force of one key; the smallest one if those of its keys differ.",
    "semaphore",
    "set_by",  # "declared" or "operator"
)
PERMITS = gauge(
    "permits",
    "Weights of permits and of grants that are not taken up yet, of all keys.",
    "semaphore",
    "state",  # "held" or "granted"
)
CAPACITY = gauge(
    "capacity",
    "Limits of all keys in use, summed; a paused key counts as what is in use there.",
    "semaphore",
)
KEYS = gauge(
    "keys",
    "Keys in use; a semaphore without keys counts as one.",
    "semaphore",
    "state",  # "used", "saturated" or "paused"; a saturated or a paused one is also used
)
WAITING = gauge(
    "waiting",
    "Waiting tasks and calls by where they are: parked in the store, kept by a worker or a process, or in transit.",
    "semaphore",
    "state",  # "parked", "kept" or "in_transit"
)
IDLE_WHILE_WAITING = gauge(
    "idle_while_waiting",
    "Free permits of keys where reachable tasks wait; about 0, or something is stuck.",
    "semaphore",
)
OLDEST_WAIT = gauge(
    "oldest_wait_seconds", "Time that the oldest waiting task has waited.", "semaphore"
)
UNSATISFIABLE = gauge(
    "unsatisfiable",
    "Waits that are set aside because their weight is above the limit in force.",
    "semaphore",
)
OUTBOX = gauge(
    "outbox", "Parked messages that were granted or have ended, and are not sent yet.", "semaphore"
)
OUTBOX_OLDEST = gauge(
    "outbox_oldest_seconds", "Time since the oldest message in the outbox was granted.", "semaphore"
)

# -- The exporter itself.

UP = gauge("up", "1 if the last collection from the store succeeded, else 0.")
COLLECTION_SECONDS = gauge("collection_seconds", "Duration of the last collection.")
KEYS_SKIPPED = gauge("keys_skipped", "Keys that the last collection left out, by --max-keys.")
RUNNABLE = gauge(
    "runnable",
    "Tasks that run or could run now: ready in the queue and its granted queue, prefetched, and running.",
    "queue",
)
SCALE_FLOOR = gauge(
    "scale_floor",
    "The fewest workers that an autoscaler may leave for this queue: 0 or 1.",
    "queue",
)

# -- Events, which each worker counts in its main process.

ACQUIRED = counter(
    "acquired",
    "Permits that tasks acquired.",
    *OF_A_TASK,
    otel="permit.acquired",
    unit="{permit}",
)
REFUSED = counter(
    "refused",
    "Attempts of tasks that got no permit.",
    *OF_A_TASK,
    "reason",
    otel="permit.refused",
    unit="{attempt}",
)
PARKED = counter(
    "parked",
    "Messages that were parked in the store.",
    *OF_A_TASK,
    otel="message.parked",
    unit="{message}",
)
PUT_BACK = counter(
    "put_back",
    "Messages that were published again, to come back later.",
    *OF_A_TASK,
    otel="message.put_back",
    unit="{message}",
)
BROUGHT_BACK = counter(
    "brought_back",
    "Parked messages that were sent to their queue.",
    *OF_A_TASK,
    otel="message.brought_back",
    unit="{message}",
)
ENDED_UNRUN = counter(
    "ended_unrun",
    "Waits that ended without a run.",
    *OF_A_TASK,
    "how",  # "dropped", "failed", "timed_out", "revoked" or "expired"
    otel="wait.ended_unrun",
    unit="{wait}",
)
LOST = counter(
    "lost",
    "Permits with a lease that ended while their tasks ran.",
    *OF_A_TASK,
    "reason",
    otel="permit.lost",
    unit="{permit}",
)
RESTORED = counter(
    "restored",
    "Permits that the store had forgotten and took back.",
    *OF_A_TASK,
    otel="permit.restored",
    unit="{permit}",
)
COPIES = counter(
    "copies",
    "Second messages of a task that were dropped, because another one ran.",
    *OF_A_TASK,
    otel="message.copies",
    unit="{message}",
)
WAIT_SECONDS = histogram(
    "wait_seconds",
    "Time from a task's first refusal to its permit; 0 for a task that was never refused.",
    "semaphore",
    otel="wait.duration",
)
TAKE_UP_SECONDS = histogram(
    "take_up_seconds",
    "Time from the grant of a waiting task to its permit: its way to a process.",
    "semaphore",
    otel="permit.take_up.duration",
    buckets=TAKE_UP_BUCKETS_S,
)
HELD_SECONDS = histogram(
    "held_seconds", "Time that tasks held their permits.", "semaphore", otel="hold.duration"
)
STORE_SECONDS = histogram(
    "store_seconds",
    "Time of one answer of the store, as the worker sees it.",
    "operation",
    otel="store.duration",
    buckets=STORE_BUCKETS_S,
)
STORE_ERRORS = counter(
    "store_errors",
    "Calls that the store did not answer, or answered with an error.",
    "operation",
    otel="store.errors",
    unit="{call}",
)

# -- A worker's state.

WORKER_PROCESSES = gauge(
    "worker_processes",
    "Processes of the worker's pool; threads or greenlets in other pools.",
    "state",  # "busy" or "idle"
)
WORKER_KEPT_MESSAGES = gauge(
    "worker_kept_messages", "Messages of waiting tasks that the worker keeps, unacknowledged."
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
OF_A_WORKER = (WORKER_PROCESSES, WORKER_KEPT_MESSAGES)
ALL = (*OF_THE_STORE, *OF_THE_EXPORTER, *OF_EVENTS, *OF_A_WORKER)
