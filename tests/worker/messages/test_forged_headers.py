"""Headers that carry names of ours: a sender may say a key and a weight, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from celery_semaphore.core.claim import Claim
from celery_semaphore.errors import SemaphoreTimeout
from celery_semaphore.task.call_options import KEY, WEIGHT
from celery_semaphore.task.request_permit import PERMIT
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.header_names import INTERNAL, PENDING_RELEASE
from celery_semaphore.worker.messages.ticket_header import TICKET
from celery_semaphore.worker.permits.note import NotePipe
from celery_semaphore.worker.pool_process import postrun
from celery_semaphore.worker.pool_process.refused_attempt import Refused

from ..brokers import EITHER
from ..conftest import Site
from ..requests import SENT, delivered, limited, request_of
from .test_copies import app  # noqa: F401 - a fixture
from .test_parking import done

ONE = Claim("one", None, 1)
OTHERS: dict[str, Any] = {
    "semaphore_kept_ticket": "255.1795325987266815.x:7b",
    "semaphore_permit": 1,
    "semaphore_pending_release": ["other:1", [], None],
    "semaphore_holder": "other:1",
    "semaphore_epoch": 1,
    "semaphore_session": "other",
    "semaphore_parks": True,
    "semaphore_refusals": 7,
    "semaphore_outcome": "failed",
    "semaphore_fanout": "news",
}


@pytest.mark.parametrize("broker", EITHER)
def test_the_limit_holds_whatever_the_headers_say(
    broker: str, request: pytest.FixtureRequest
) -> None:
    site: Site = request.getfixturevalue(broker)
    site.start(concurrency=4)
    results = [site.send("hold", 0.3, "w", headers=OTHERS) for _ in range(4)]
    results += [site.send("early", "retry", "w", headers=OTHERS) for _ in range(4)]
    done(results)
    stats = site.counter.stats("w")
    assert (stats["max_inside"], stats["entries"]) == (1, 12)
    site.wait_all_back(ONE, 5)


def test_all_of_ours_are_forged_here() -> None:
    assert set(OTHERS) == set(INTERNAL)


@pytest.mark.parametrize("name", OTHERS)
def test_a_request_has_none_of_them_from_its_message(app: Celery, name: str) -> None:  # noqa: F811
    said: dict[str, Any] = {KEY: "k", WEIGHT: 2, TICKET: SENT}
    request = request_of(limited(app), **{name: OTHERS[name]}, **said)
    assert request._request_dict.get(name) != OTHERS[name]
    assert said.items() <= request._request_dict.items()


def test_the_gate_knows_a_permit_by_its_type(app: Celery) -> None:  # noqa: F811
    task = limited(app)
    limiter_of(app).process.store.acquire([ONE], "other:1")
    with pytest.raises(Refused):
        delivered(task, "IGNORED", **{PERMIT: 1})


def test_an_eager_task_waits_for_its_permit(app: Celery) -> None:  # noqa: F811
    app.conf.semaphore_eager_timeout = 0.2
    task, given = limited(app), dict(OTHERS)
    limiter_of(app).process.store.acquire([ONE], "other:1")
    with pytest.raises(SemaphoreTimeout):
        task.apply(headers=given, throw=True)
    assert given == OTHERS, "the dictionary is its caller's"


def test_a_task_without_a_limit_has_no_permit(app: Celery) -> None:  # noqa: F811
    task = limited(app, semaphore=None, limit=None)
    task.push_request(**{PERMIT: 1})
    assert task.permit is None
    task.pop_request()


def test_the_end_of_a_task_releases_no_other(app: Celery) -> None:  # noqa: F811
    """Not even of a task without a limit, whose request drops nothing."""
    task = limited(app, semaphore=None, limit=None)
    limiter = limiter_of(app)
    limiter.serve(NotePipe())
    limiter.process.store.acquire([ONE], "other:1")
    task.push_request(id="x", **{PENDING_RELEASE: ["other:1", [ONE], None]})
    postrun._release(task, "SUCCESS")
    task.pop_request()
    assert limiter.process.store.snapshot("one").occupied == 1
