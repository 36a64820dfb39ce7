"""Nodes of a Redis Cluster are lost, replaced and relieved under load: nothing above the limit, and nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import ClusterServer
from tests.support.cluster_faults import FAULTS, LEASE, bound, watched
from tests.support.counter import Counter, CounterServer
from tests.support.forgetful import all_come_back

pytestmark = pytest.mark.race


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_no_living_holder_is_lost_and_none_is_above_the_limit(
    name: str,
    cluster: ClusterServer,
    counter_server: CounterServer,
    counter: Counter,
    tmp_path: Path,
) -> None:
    seconds = 1.0
    with watched(cluster, counter, tmp_path) as watch:
        watch.strike(name, seconds)
    (pause,) = watch.pauses[name]
    assert pause <= bound(name, seconds)
    all_come_back(cluster.url, LEASE)
