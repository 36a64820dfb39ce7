"""A worker that meets what a later release keeps and sends: it waits, and says which release it takes."""

from __future__ import annotations

import pytest

from tests.support.counter import Counter
from tests.support.process import wait_until

from .deployment import LIMIT, STOPS_S, Deployment
from .environment import Environment, build, source_of

pytestmark = [pytest.mark.release, pytest.mark.timeout(3000)]
ADVICE = (
    "the store has format 2, and this release of celery_semaphore reads up to format 1:"
    " upgrade celery_semaphore to a release that reads format 2"
)


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return the environment of a pretended release with the next format."""
    source = source_of("HEAD", tmp_path_factory.mktemp("later") / "checkout")
    formats = source / "celery_semaphore" / "core" / "formats.py"
    text = formats.read_text()
    assert "\nFORMAT = 1\n" in text
    formats.write_text(text.replace("\nFORMAT = 1\n", "\nFORMAT = 2\n"))
    wheel = build(source, tmp_path_factory.mktemp("dist"))
    return Environment(tmp_path_factory.mktemp("environment"), wheel, "redis")


def test_it_waits_and_says_which_release_it_takes(
    deployment: Deployment, later: Environment, installed: Environment, counter: Counter
) -> None:
    def have_run(name: str, count: int) -> bool:
        return len(counter.stats(name)["tasks"]) == count

    newer = deployment.start(later)
    deployment.send()
    wait_until(lambda: have_run("one", deployment.sent), 60, "the later release runs them")
    older = deployment.start(installed)
    deployment.stop()
    newer.wait(STOPS_S)
    before = deployment.sent
    deployment.send()
    deployment.client.send_task("unlimited")
    wait_until(lambda: have_run("unlimited", 1), 20, "a task without a limit runs", log=older.log)
    older.wait_until(lambda: ADVICE in older.log(), 20, "what it takes")
    assert have_run("one", before)
    deployment.start(later)
    deployment.stop()
    older.wait(STOPS_S)
    wait_until(lambda: have_run("one", deployment.sent), 60, "none is lost")
    assert counter.stats("one")["max_inside"] <= LIMIT
    for worker in [*deployment.workers, *deployment.ended]:
        assert "Traceback" not in worker.log()
    assert [worker.returncode for worker in deployment.ended] == [0, 0]
