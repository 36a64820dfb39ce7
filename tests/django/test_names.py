"""How often workers are asked for names."""

from __future__ import annotations

from collections.abc import Collection
from threading import Event, Thread, Timer

import pytest

from celery_semaphore.django.names import PAUSE_S, REMEMBER, SHOWN_S, Names
from celery_semaphore.ops.replies import Replies, TaskAt
from tests.support.process import wait_until


class Workers:
    """They know tasks whose ids begin with "run"."""

    def __init__(self) -> None:
        self.asked: list[Collection[str]] = []
        self.now = 0.0

    def __call__(self, task_ids: Collection[str]) -> Replies:
        self.asked.append(set(task_ids))
        return Replies(
            {i: [TaskAt("export", "w1", active=True)] for i in task_ids if i.startswith("run")}
        )


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.fixture
def names(workers: Workers) -> Names:
    return Names(workers, now=lambda: workers.now)


def test_what_is_known_is_not_asked_again_for_a_while(workers: Workers, names: Names) -> None:
    for _ in range(3):
        assert names.asked(["run-1"]).workers_of("run-1", active=True) == "w1"
        workers.now += PAUSE_S
    workers.now = REMEMBER
    assert names.asked(["run-1"]).workers_of("run-1", active=True) == "w1"
    assert len(workers.asked) == 2


def test_however_many_look_workers_are_asked_once_in_a_while(
    workers: Workers, names: Names
) -> None:
    for n in range(10):
        names.asked([f"wait-{n}"])
    assert workers.asked == [{"wait-0"}, {"wait-0", "wait-1"}]  # the second in the pause
    workers.now = PAUSE_S
    names.asked(["wait-1"])
    assert workers.asked[2:] == [{f"wait-{n}" for n in range(10)}]


def test_a_task_that_is_searched_for_is_asked_in_the_pause(workers: Workers, names: Names) -> None:
    names.asked(["wait-1"])
    workers.now = PAUSE_S / 2
    assert names.asked(["run-1"]).workers_of("run-1", active=True) == "w1"


def test_each_of_many_pages_has_its_names(workers: Workers, names: Names) -> None:
    """The tasks of one page wait, so that they are asked for again and again."""
    pages = [["wait-1"], ["run-1"], ["run-2"], ["run-3"]]
    while workers.now < 2 * REMEMBER:
        for page in pages:
            heard = names.asked(page)
            if workers.now > 2 * PAUSE_S:
                assert heard.tasks.keys() == set(page) - {"wait-1"}
        workers.now += 2.0
    assert len(workers.asked) <= 2 + 2 * REMEMBER / PAUSE_S


def test_a_page_that_was_closed_is_not_asked_for(workers: Workers, names: Names) -> None:
    names.asked(["wait-1"])
    workers.now = SHOWN_S
    names.asked(["wait-2"])
    assert workers.asked == [{"wait-1"}, {"wait-2"}]


def test_a_new_page_waits_for_the_query_of_another() -> None:
    """Of two pages that wait, one asks for both."""
    asked, answer = Event(), Event()
    queries: list[set[str]] = []

    def slow(task_ids: Collection[str]) -> Replies:
        queries.append(set(task_ids))
        asked.set()
        assert answer.wait(10)
        return Replies({i: [TaskAt("export", "w1", active=True)] for i in task_ids})

    names = Names(slow)
    first = Thread(target=names.asked, args=[["run-1"]])
    first.start()
    assert asked.wait(10)
    Timer(0.3, answer.set).start()
    third = Thread(target=names.asked, args=[["run-3"]])
    third.start()
    assert names.asked(["run-2"]).workers_of("run-2", active=True) == "w1"
    first.join(10)
    third.join(10)
    assert len(queries) == 2
    assert names.remembered(["run-3"]).workers_of("run-3", active=True) == "w1"


def test_who_only_looks_asks_nobody(workers: Workers, names: Names) -> None:
    names.remembered(["run-1"])
    assert not workers.asked


def test_what_was_forgotten_takes_no_space(workers: Workers, names: Names) -> None:
    for n in range(100):
        names.asked([f"run-{n}"])
        workers.now += PAUSE_S
    assert len(names._known) <= (REMEMBER + SHOWN_S) / PAUSE_S + 1


def test_a_page_does_not_wait_for_a_broker_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("celery_semaphore.django.names.LONGEST_S", 0.1)
    answer = Event()

    def hangs(_: Collection[str]) -> Replies:
        assert answer.wait(10)
        return Replies({"run-1": [TaskAt("export", "w1", active=True)]})

    names = Names(hangs)
    assert names.asked(["run-1"]).tasks == {}
    assert names.asked(["run-1"]).tasks == {}  # and asks no second time meanwhile
    answer.set()
    wait_until(lambda: names.remembered(["run-1"]).workers_of("run-1", active=True) == "w1")


def test_who_comes_while_somebody_asks_does_not_wait() -> None:
    asked, answer = Event(), Event()

    def slow(_: Collection[str]) -> Replies:
        asked.set()
        assert answer.wait(10)
        return Replies({"run-1": [TaskAt("export", "w1", active=True)]})

    names = Names(slow)
    first = Thread(target=names.asked, args=[["run-1"]])
    first.start()
    assert asked.wait(10)
    assert names.asked(["run-1"]).tasks == {}
    answer.set()
    first.join(10)
    wait_until(lambda: names.remembered(["run-1"]).workers_of("run-1", active=True) == "w1")
