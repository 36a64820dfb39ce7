"""A Redis Cluster that is hurt hundreds of times while processes hold permits in it."""

from __future__ import annotations

import os
import statistics
from pathlib import Path

import pytest

from tests.support.cluster import ClusterServer
from tests.support.cluster_faults import LEASE, any_fault, bound, watched
from tests.support.counter import Counter, CounterServer
from tests.support.forgetful import all_come_back

CLUSTER_FAULTS = int(os.environ.get("CLUSTER_FAULTS", "200"))


@pytest.mark.soak
@pytest.mark.timeout(60 + 40 * CLUSTER_FAULTS)
def test_random_faults(
    cluster: ClusterServer, counter_server: CounterServer, counter: Counter, tmp_path: Path
) -> None:
    late = list[str]()
    with watched(cluster, counter, tmp_path) as watch:
        for n in range(CLUSTER_FAULTS):
            name, seconds = any_fault()
            watch.strike(name, seconds)
            pause = watch.pauses[name][-1]
            said = f"{name} {seconds:g} s: {pause}"
            print(f"{n}: {said}", flush=True)
            if pause.longest > bound(name, seconds):
                late.append(said)
    for name, found in watch.pauses.items():
        pauses = [pause.longest for pause in found]
        print(
            f"{name}: {len(pauses)} times, {statistics.median(pauses):.1f} s, at most {max(pauses):.1f} s"
        )
    assert len(late) <= CLUSTER_FAULTS // 100, late
    all_come_back(cluster.url, LEASE)
