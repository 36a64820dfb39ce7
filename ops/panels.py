"""The panels of the board, in the order in which a reader needs them."""

from __future__ import annotations

from dataclasses import dataclass

from celery_semaphore.metrics import catalogue as metrics
from celery_semaphore.metrics.metric import Metric

from .queries import increase, quantile, rate, seen, select, total

SHOWN = "~$semaphore"  # the semaphores that the reader of the board chose


@dataclass(frozen=True, slots=True)
class Panel:
    """One time series panel: its queries, each with the legend of its lines."""

    title: str
    about: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """A panel of one figure, which turns red above a threshold."""

    title: str
    about: str
    query: str
    unit: str = "short"
    red_above: float | None = None
    is_counted: bool = False  # without a sample it did not happen; else it is not known


@dataclass(frozen=True, slots=True)
class List:
    """A panel with a row for each result of a query."""

    title: str
    about: str
    query: str
    unit: str = "short"


def half_and_most(metric: Metric) -> tuple[tuple[str, str], ...]:
    """Return the queries of two quantiles: half of the values are below p50, 95 of 100 below p95."""
    return tuple(
        (
            quantile(part, metric, "semaphore", semaphore=SHOWN),
            f"{{{{semaphore}}}} p{part * 100:.0f}",
        )
        for part in (0.5, 0.95)
    )


def each_second(metric: Metric, legend: str, *labels: str) -> tuple[str, str]:
    """Return the query of a counter's growth in a second, by semaphore and these labels."""
    return total(rate(metric, semaphore=SHOWN), "semaphore", *labels), f"{{{{semaphore}}}}{legend}"


USE = (
    f"{total(seen(metrics.PERMITS, semaphore=SHOWN), 'semaphore')}"
    f" / on (semaphore) ({seen(metrics.CAPACITY, semaphore=SHOWN)} > 0)"  # 0 while nothing uses it
)

NUMBERS = (
    Number("In use", "Permits and grants.", total(seen(metrics.PERMITS, semaphore=SHOWN))),
    Number(
        "Waiting",
        "Tasks and calls without a permit.",
        total(seen(metrics.WAITING, semaphore=SHOWN)),
    ),
    Number(
        "Oldest wait",
        "How long the oldest waiting task has waited; red after half an hour.",
        f"max({seen(metrics.OLDEST_WAIT, semaphore=SHOWN)})",
        unit="s",
        red_above=1800,
    ),
    Number(
        "Paused keys",
        "Keys in use that an operator paused, or with a limit of 0.",
        total(seen(metrics.KEYS, state="paused", semaphore=SHOWN)),
        red_above=0,
    ),
    Number(
        "Permits lost",
        "In the last hour. More tasks than the limit may have run.",
        total(increase(metrics.LOST, "1h", semaphore=SHOWN)),
        red_above=0,
        is_counted=True,
    ),
    Number(
        "Errors of the store",
        "In the last hour: calls without an answer, or with an error.",
        total(increase(metrics.STORE_ERRORS, "1h")),
        red_above=0,
        is_counted=True,
    ),
)

LISTS = (
    List(
        "Paused",
        "Semaphores with paused keys, and how many of these are in use.",
        f"{seen(metrics.KEYS, state='paused', semaphore=SHOWN)} > 0",
    ),
    List(
        "Most saturated",
        "The ten semaphores with the largest share of their permits in use.",
        f"topk(10, {USE})",
        unit="percentunit",
    ),
)

PANELS = (
    Panel(
        "Use of the limits",
        "Permits and grants as a share of the limits of all keys in use. At 1, tasks wait or are about to.",
        (
            (
                USE,
                "{{semaphore}}",
            ),
        ),
        unit="percentunit",
    ),
    Panel(
        "Waiting",
        "Tasks and calls without a permit: parked in the store, kept by a worker, or in transit with the broker.",
        (
            (
                seen(metrics.WAITING, semaphore=SHOWN),
                "{{semaphore}} {{state}}",
            ),
        ),
        stacked=True,
    ),
    Panel(
        "Oldest wait",
        "How long the oldest waiting task has waited.",
        ((seen(metrics.OLDEST_WAIT, semaphore=SHOWN), "{{semaphore}}"),),
        unit="s",
    ),
    Panel(
        "Time waited",
        "For tasks that got their permits: half waited less than p50, 95 of 100 less than p95.",
        half_and_most(metrics.WAIT_SECONDS),
        unit="s",
    ),
    Panel(
        "Permits acquired",
        "Per second, by all workers.",
        (each_second(metrics.ACQUIRED, ""),),
        unit="ops",
    ),
    Panel(
        "Attempts refused",
        "Per second. A waiting task is refused once, and again if its message was delivered again.",
        (each_second(metrics.REFUSED, " {{reason}}", "reason"),),
        unit="ops",
    ),
    Panel(
        "Time to take up a grant",
        "From the grant of a waiting task to its permit. It grows if no process is free, or no worker consumes the queue.",
        (
            (
                quantile(0.95, metrics.TAKE_UP_SECONDS, "semaphore", semaphore=SHOWN),
                "{{semaphore}} p95",
            ),
        ),
        unit="s",
    ),
    Panel(
        "Time held",
        "How long tasks held their permits.",
        half_and_most(metrics.HELD_SECONDS),
        unit="s",
    ),
    Panel(
        "Free permits while tasks wait",
        "About 0. If it stays above 0, grants are not taken up: no process is free, or a worker hangs.",
        ((seen(metrics.IDLE_WHILE_WAITING, semaphore=SHOWN), "{{semaphore}}"),),
    ),
    Panel(
        "Lost and restored permits",
        "A lost permit means that more tasks than the limit may have run.",
        (
            each_second(metrics.LOST, " lost: {{reason}}", "reason"),
            each_second(metrics.RESTORED, " restored"),
        ),
        unit="ops",
    ),
    Panel(
        "Waits that ended without a run",
        "Dropped, failed, timed out, revoked or expired.",
        (each_second(metrics.ENDED_UNRUN, " {{how}}", "how"),),
        unit="ops",
    ),
    Panel(
        "Outbox",
        "Parked messages that must be sent, and the age of the oldest grant among them.",
        (
            (seen(metrics.OUTBOX, semaphore=SHOWN), "{{semaphore}} messages"),
            (seen(metrics.OUTBOX_OLDEST, semaphore=SHOWN), "{{semaphore}} oldest, seconds"),
        ),
    ),
    Panel(
        "Moves of messages",
        "Messages that were parked, sent to their queue, published again, or dropped as copies.",
        tuple(
            each_second(metric, f" {verb}")
            for metric, verb in (
                (metrics.PARKED, "parked"),
                (metrics.BROUGHT_BACK, "sent"),
                (metrics.PUT_BACK, "published again"),
                (metrics.COPIES, "dropped as copies"),
            )
        ),
        unit="ops",
    ),
    Panel(
        "Answers of the store",
        "99 of 100 answers came within this time.",
        ((quantile(0.99, metrics.STORE_SECONDS, "operation"), "{{operation}}"),),
        unit="s",
    ),
    Panel(
        "Errors of the store",
        "Calls without an answer, or with an error. While the store is away, no limited task starts.",
        ((total(rate(metrics.STORE_ERRORS), "operation"), "{{operation}}"),),
        unit="ops",
    ),
    Panel(
        "Processes of the workers",
        "Busy and idle processes, and the messages that workers keep for waiting tasks.",
        (
            (total(select(metrics.WORKER_PROCESSES), "state"), "{{state}}"),
            (total(select(metrics.WORKER_KEPT_MESSAGES)), "kept messages"),
        ),
    ),
    Panel(
        "What can run",
        "Tasks that run or could run now, and the fewest workers that an autoscaler may leave.",
        (
            (seen(metrics.RUNNABLE), "{{queue}} can run"),
            (seen(metrics.SCALE_FLOOR), "{{queue}} floor"),
        ),
    ),
    Panel(
        "Limits and keys",
        "The limit of one key, and how many keys are in use, saturated or paused.",
        (
            (seen(metrics.LIMIT, semaphore=SHOWN), "{{semaphore}} limit, {{set_by}}"),
            (seen(metrics.KEYS, semaphore=SHOWN), "{{semaphore}} keys {{state}}"),
            (seen(metrics.UNSATISFIABLE, semaphore=SHOWN), "{{semaphore}} too heavy"),
        ),
    ),
    Panel(
        "The exporter",
        "1 if the store answered; the duration of a collection; the keys that it left out.",
        (
            (seen(metrics.UP), "up"),
            (seen(metrics.COLLECTION_SECONDS), "collection, seconds"),
            (seen(metrics.KEYS_SKIPPED), "keys left out"),
        ),
    ),
)
