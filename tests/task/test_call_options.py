"""The options of a call by a task's name, of which Celery makes properties of the message."""

from __future__ import annotations

import re
from typing import Any

import pytest
from celery import Celery
from kombu import Connection

from celery_semaphore import Limit, LimitedTask, SemaphoreError
from celery_semaphore.core.spelling import nearest
from celery_semaphore.task.call_options import LONGEST_MISSPELT, OPTIONS, refuse_misspelt
from celery_semaphore.worker.messages.header_names import INTERNAL, OF_ONE_WAIT


def sent(app: Celery, **options: Any) -> Any:
    """Send a task by its name, and return its message."""
    app.send_task("shop.export", ("a",), queue="names", **options)
    with Connection("memory://") as connection, connection.SimpleQueue("names") as queue:
        message = queue.get(timeout=5)
        message.ack()
        return message


def test_they_travel_as_headers(app: Celery) -> None:
    message = sent(app, semaphore_key="vip", semaphore_weight=2, priority=3)
    assert (message.headers["semaphore_key"], message.headers["semaphore_weight"]) == ("vip", 2)
    assert message.properties["priority"] == 3
    assert not [name for name in message.properties if name.startswith("sem")]


def test_a_header_of_the_sender_goes_before(app: Celery) -> None:
    message = sent(app, semaphore_key="vip", headers={"semaphore_key": "mine"})
    assert message.headers["semaphore_key"] == "mine"


def test_other_calls_by_name_are_left_alone(app: Celery) -> None:
    message = sent(app, headers={"mine": "1"})
    assert not [name for name in message.headers if name.startswith("sem")]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("semaphore_kye", "semaphore_key"),
        ("semaphore_keyy", "semaphore_key"),
        ("sempahore_key", "semaphore_key"),
        ("semaphore_wieght", "semaphore_weight"),
        ("semaphore_weigth", "semaphore_weight"),
    ],
)
def test_a_misspelt_one_fails_its_task(app: Celery, name: str, meant: str) -> None:
    headers = sent(app, **{name: "vip"}).headers
    with pytest.raises(SemaphoreError, match=f"header {name}, which is .*did you mean {meant}"):
        refuse_misspelt(headers)

    @app.task(name="shop.export", base=LimitedTask, semaphore="s", limit=2, shared=False)
    def export(tenant: str) -> None: ...

    said = f"task shop.export: its message has the header {name}"
    with pytest.raises(SemaphoreError, match=said):
        export.apply(("a",), headers={name: "vip"}, throw=True)


def test_a_header_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison takes longer than an acquire, and a worker writes the same headers for each delivery."""
    compared = []

    def compare(name: str, *args: Any, **options: Any) -> str | None:
        compared.append(name)
        return nearest(name, *args, **options)

    monkeypatch.setattr("celery_semaphore.task.call_options.nearest", compare)
    for _ in range(3):
        refuse_misspelt(["semaphore_seen_once"])
    assert compared == ["semaphore_seen_once"]


def test_names_of_others_take_no_place_among_those_that_were_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sender may give each message a header of its own."""
    compared = []
    monkeypatch.setattr(
        "celery_semaphore.task.call_options.nearest", lambda name, *_, **__: compared.append(name)
    )
    for n in range(500):
        refuse_misspelt(["semaphore_among_others", f"x-{n}"])
    assert compared == ["semaphore_among_others"]


def test_a_long_name_is_not_compared_nor_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """No misspelt option is so long, and names of a sender could take any memory."""
    compared: list[str] = []
    monkeypatch.setattr(
        "celery_semaphore.task.call_options.nearest", lambda name, *_, **__: compared.append(name)
    )
    refuse_misspelt(["semaphore_weight" * 3, "semaphore_" + "h" * 1_000_000])
    assert compared == []


def test_no_long_name_is_alike() -> None:
    assert nearest("semaphore_weight" + "x" * (LONGEST_MISSPELT - 15), OPTIONS) is None


def test_what_workers_write_is_none_of_them() -> None:
    refuse_misspelt([*INTERNAL, *OF_ONE_WAIT, "semaphore_key", "semaphore_weight", "sem", "mine"])


@pytest.mark.parametrize(
    ("limits", "options", "said"),
    [
        (
            [Limit("a", 1), Limit("b", 1)],
            {"key": "vip"},
            "semaphore_key and semaphore_weight need a task with one semaphore",
        ),
        ([Limit("a", 1)], {"key": 7}, "semaphore_key=7 must be a string"),
        ([Limit("a", 1)], {"key": "{tenant}"}, "semaphore_key='{tenant}' would be used literally"),
        ([Limit("a", 1)], {"weight": "2"}, "semaphore_weight='2' must be a whole number"),
        ([Limit("a", 1)], {"weight": 0}, "semaphore_weight=0 must be a whole number"),
    ],
)
def test_wrong_values_of_a_header_fail_the_task_as_apply_async_does(
    app: Celery, limits: list[Limit], options: dict[str, Any], said: str
) -> None:
    @app.task(name="shop.export", base=LimitedTask, semaphore=limits, shared=False)
    def export(tenant: str) -> None: ...

    with pytest.raises(SemaphoreError, match=f"task shop.export: {re.escape(said)}"):
        export.semaphore_options.claims(("a",), {}, **options)
