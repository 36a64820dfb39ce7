"""The alarms: rules for Prometheus, each with what to do. Set the thresholds to what your tasks may wait."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from celery_semaphore.metrics import catalogue as metrics

from .queries import increase, rate, seen, select, total

RUNBOOK = "https://github.com/celery-semaphore/celery-semaphore/blob/main/docs/operate/alarms.md#{}"
HEAD = (
    "# Written by `python -m ops`, from the catalogue of metrics: change ops/alarms.py instead.\n"
)


@dataclass(frozen=True, slots=True)
class Alarm:
    """One rule: it fires once the query has had results for ``lasting``."""

    name: str
    query: str
    lasting: str
    severity: str
    summary: str
    action: str


# The age of the outbox tells nothing of a stuck broker: a grant ends after its time, and is made anew.
ALARMS = (
    Alarm(
        "SemaphoreExporterDown",
        f"{seen(metrics.UP)} == 0 or absent({select(metrics.UP)})",
        "2m",
        "critical",
        "The exporter gets no figures from the store.",
        "If the store is away, no limited task starts: restore it. Otherwise, look at the exporter's log.",
    ),
    Alarm(
        "SemaphorePermitsLost",
        f"{total(increase(metrics.LOST, '10m'), 'semaphore', 'reason')} > 0",
        "0m",
        "critical",
        "Tasks of {{ $labels.semaphore }} lost their permits ({{ $labels.reason }}).",
        "More tasks than the limit may have run. Look for workers that were paused or cut off from the store.",
    ),
    Alarm(
        "SemaphoreIdleWhileWaiting",
        f"{seen(metrics.IDLE_WHILE_WAITING)} > 0",
        "2m",
        "warning",
        "Permits of {{ $labels.semaphore }} are free while tasks wait.",
        "Is a worker running? If so, look for workers that hang or have no free process. With weights above 1, the head of the line may need more.",
    ),
    Alarm(
        "SemaphoreOldestWait",
        f"{seen(metrics.OLDEST_WAIT)} > 1800",
        "5m",
        "warning",
        "A task of {{ $labels.semaphore }} has waited for {{ $value | humanizeDuration }}.",
        "Is the semaphore paused, its limit too low, or a permit held for very long? `celery semaphore list --sort oldest` names the semaphore, `show` has the rest.",
    ),
    Alarm(
        "SemaphoreOutboxStuck",
        f"max by (semaphore) (min_over_time({select(metrics.OUTBOX)}[2m])) > 0"
        f" unless on (semaphore) {total(increase(metrics.BROUGHT_BACK, '2m'), 'semaphore')} > 0",
        "1m",
        "critical",
        "Parked tasks of {{ $labels.semaphore }} were granted permits, but no message is sent.",
        "Is a worker with limited tasks running, and does the broker accept messages?",
    ),
    Alarm(
        "SemaphoreUnsatisfiable",
        f"{seen(metrics.UNSATISFIABLE)} > 0",
        "10m",
        "warning",
        "Tasks of {{ $labels.semaphore }} weigh more than its limit and can never run.",
        "Raise the limit, or drop these tasks.",
    ),
    Alarm(
        "SemaphoreWaitsEndedUnrun",
        f"{total(increase(metrics.ENDED_UNRUN, '15m', how='timed_out'), 'semaphore')} > 0",
        "0m",
        "warning",
        "Waiting tasks of {{ $labels.semaphore }} timed out without running.",
        "Raise the limit or wait_timeout, or send fewer tasks.",
    ),
    Alarm(
        "SemaphorePausedForADay",
        f"{seen(metrics.KEYS, state='paused')} > 0",
        "1d",
        "warning",
        "{{ $labels.semaphore }} has been paused for a day, with {{ $value }} keys in use.",
        "If the pause is no longer needed: `celery semaphore resume`. `celery semaphore check` lists all old pauses.",
    ),
    Alarm(
        "SemaphoreLimitSetForADay",
        f"{seen(metrics.LIMIT, set_by='operator')} > 0",
        "1d",
        "info",
        "A limit of {{ $labels.semaphore }} has been set by an operator for a day: {{ $value }}.",
        "Write the limit into the code, or clear it: `celery semaphore limit --clear`.",
    ),
    Alarm(
        "SemaphoreStoreErrors",
        f"{total(rate(metrics.STORE_ERRORS, '5m'), 'operation')} > 0.1",
        "2m",
        "critical",
        "The store does not answer {{ $labels.operation }}.",
        "While the store is away, no limited task starts; running tasks lose their permits after a lease.",
    ),
    Alarm(
        "SemaphoreKeysSkipped",
        f"{seen(metrics.KEYS_SKIPPED)} > 0",
        "15m",
        "warning",
        "The exporter leaves out {{ $value }} keys, so the figures are too low.",
        "Raise --max-keys of the exporter.",
    ),
)


def alarms() -> str:
    """Return the rules as YAML, with each text quoted as JSON, which is YAML too."""
    return HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "groups:"
    yield "  - name: celery_semaphore"
    yield "    rules:"
    for alarm in ALARMS:
        yield f"      - alert: {alarm.name}"
        yield f"        expr: {json.dumps(alarm.query)}"
        yield f"        for: {alarm.lasting}"
        yield f"        labels: {{severity: {alarm.severity}}}"
        yield "        annotations:"
        yield f"          summary: {json.dumps(alarm.summary)}"
        yield f"          description: {json.dumps(alarm.action)}"
        yield f"          runbook_url: {json.dumps(RUNBOOK.format(alarm.name.lower()))}"
