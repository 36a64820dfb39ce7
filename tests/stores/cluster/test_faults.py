"""Nodes of a Redis Cluster are lost, replaced and relieved under load: nothing above the limit, and nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import ClusterServer
from tests.support.cluster_faults import FAULTS, GRACE, LEASE, SLACK_S, watched
from tests.support.counter import Counter, CounterServer
from tests.support.forgetful import all_come_back
from tests.support.variants import also

pytestmark = pytest.mark.race
OFTEN = ["kill -9", "FAILOVER", "SETSLOT"]
SELDOM = [name for name in FAULTS if name not in OFTEN]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OFTEN, *also(*SELDOM)])
def test_no_living_holder_is_lost_and_none_is_above_the_limit(
    name: str,
    cluster: ClusterServer,
    counter_server: CounterServer,
    counter: Counter,
    tmp_path: Path,
) -> None:
    with watched(cluster, counter, tmp_path) as watch:
        watch.strike(name, 1.0)
    (pause,) = watch.pauses[name]
    # How soon a node is replaced is between the nodes: on a busy machine their election takes longer.
    assert pause.longest <= pause.unserved + GRACE + SLACK_S
    all_come_back(cluster.url, LEASE)
