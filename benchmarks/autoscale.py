"""What Celery's own ``--autoscale`` makes of a queue of limited tasks: processes over time.

`python -m benchmarks.autoscale`: 500 tasks of 200 ms with limit 2, one worker with ``--autoscale=10,1``: parked and
requeued, alone and with twenty unlimited tasks a second beside them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby, product

from celery import Celery

from tests.support.counter import CounterServer
from tests.support.servers import ValkeyServer
from tests.support.worker import CeleryWorker
from tests.worker.conftest import Site, site_on

TASKS = 500
SECONDS = 0.2
LIMIT = 2  # of the task `export`
KEEPALIVE_S = 5  # of Celery's autoscaler, 30 by default
SAMPLE_S = 0.5
LONGEST_S = 120.0


@contextmanager
def servers() -> Iterator[tuple[ValkeyServer, CounterServer]]:
    with ValkeyServer() as valkey, CounterServer() as counter:
        yield valkey, counter


def play(site: Site, policy: str, beside: int) -> None:
    for _ in range(TASKS):
        site.client.send_task("export", (1, SECONDS), ignore_result=True)
    worker = site.start(
        conf={"semaphore_on_saturated": policy},
        options=["--autoscale=10,1"],
        env={"AUTOSCALE_KEEPALIVE": str(KEEPALIVE_S)},
    )
    began, samples = time.monotonic(), list[tuple[float, int, int, int]]()
    while time.monotonic() - began < LONGEST_S:
        seen = site.counter.stats("tenant 1")
        now = time.monotonic() - began
        samples.append((now, len(worker.children()), seen["inside"], seen["completed"]))
        if seen["completed"] == TASKS:
            break
        send_beside(site.client, int(beside * SAMPLE_S))
        time.sleep(SAMPLE_S)
    report(policy, beside, samples, worker)


def send_beside(client: Celery, count: int) -> None:
    for _ in range(count):
        client.send_task("free", (0.05,), ignore_result=True)


def report(
    policy: str,
    beside: int,
    samples: list[tuple[float, int, int, int]],
    worker: CeleryWorker,
) -> None:
    spans = [(n, list(of)) for n, of in groupby(samples, key=lambda sample: sample[1])]
    line = ", ".join(f"{n} from {of[0][0]:.1f} s" for n, of in spans)
    mean = sum(n for _, n, _, _ in samples) / len(samples)
    scaled = [text for text in worker.log().splitlines() if "Scaling" in text]
    print(f"{policy}, {beside} a second beside: {samples[-1][3]} done in {samples[-1][0]:.1f} s")
    print(f"  processes: {line}; mean {mean:.1f}; scaled {len(scaled)} times")


def main() -> None:
    with servers() as (valkey, counter):
        for policy, beside in product(("park", "requeue"), (0, 20)):
            valkey.flush()
            sites = site_on(valkey, counter, lease=30.0)
            site = next(sites)
            site.counter.reset()
            play(site, policy, beside)
            next(sites, None)  # ends its workers


if __name__ == "__main__":
    main()
