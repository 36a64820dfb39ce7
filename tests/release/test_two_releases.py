"""Two releases side by side on one store: workers of one are replaced by workers of the other, under load, and back.

``RELEASE_BEFORE`` names the tag or the commit of the older one, which must have the same format; without it the
older one is this commit, which shows that two installations share a store. ``RELEASE_SECONDS`` is how long each way
takes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.counter import Counter
from tests.support.process import wait_until

from .deployment import LIMIT, Deployment
from .environment import Environment, build, source_of

pytestmark = pytest.mark.timeout(3000)
WORKERS = 2
SECONDS = float(os.environ.get("RELEASE_SECONDS", "300"))
BEFORE = os.environ.get("RELEASE_BEFORE")


@pytest.fixture(scope="module")
def before(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return the environment of the older release."""
    if BEFORE:
        source = source_of(BEFORE, tmp_path_factory.mktemp("source") / "checkout")
        wheel = build(source, tmp_path_factory.mktemp("dist"))
    return Environment(tmp_path_factory.mktemp("before"), wheel, "redis")


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(6.0, marks=pytest.mark.release),
        pytest.param(SECONDS, marks=pytest.mark.soak),
    ],
)
def test_upgrade_and_rollback_under_load(
    deployment: Deployment,
    before: Environment,
    installed: Environment,
    counter: Counter,
    seconds: float,
) -> None:
    def ran() -> int:
        return int(counter.stats("one")["completed"])

    def waits() -> int:
        return deployment.sent - ran()

    deployment.start(before, WORKERS)
    deployment.replace_all_by(installed, seconds, waits)
    deployment.replace_all_by(before, seconds, waits)
    wait_until(lambda: len(counter.stats("one")["tasks"]) == deployment.sent, 60, "all have run")
    wait_until(lambda: counter.stats("one")["inside"] == 0, 20, "all have ended")
    assert deployment.sent > 40 * seconds / 6
    assert counter.stats("one")["max_inside"] == LIMIT
    print(f"{deployment.sent} tasks, {ran() - deployment.sent} of them again, as late acks may")
    for worker in [*deployment.workers, *deployment.ended]:
        assert "Traceback" not in worker.log()
    assert [worker.returncode for worker in deployment.ended] == [0] * 2 * WORKERS
