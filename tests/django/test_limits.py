"""Limits and pauses in the admin."""

from __future__ import annotations

from typing import Any

import pytest

from celery_semaphore.core.claim import HIGHEST, Claim
from celery_semaphore.core.store import Store
from tests.conformance.acquisition import limits_set
from tests.django.conftest import occupy
from tests.django.pages import API, LIST, Login, address, logged


def test_a_limit_is_set_and_cleared(client: Login, store: Store) -> None:
    occupy(store, API, ["one:1"])
    browser = client()
    browser.post(address("api", do="limit"), {"limit": "7"})
    assert store.snapshot("api").limit == 7
    browser.post(address("api", do="clear"))
    assert not store.snapshot("api").set_by_operator
    assert logged() == [
        "api: Set the limit to 7.",
        "api: Cleared the limit: 2 is in force, as the tasks declare.",
    ]


def test_what_is_in_force_after_a_key_was_cleared_or_resumed_is_said(
    client: Login, store: Store
) -> None:
    browser = client()
    store.set_limit(9, "export")
    store.set_limit(3, "export/7")
    store.pause("export/7")
    for do, said in (
        (
            "clear",
            "9 is in force, set for the whole semaphore. It stays paused until it is resumed.",
        ),
        ("resume", "Resumed: the limit is 9 (set)."),
        ("resume", "Nothing changed: it was not paused."),
    ):
        page = browser.post(address("export", "7", do), follow=True).content.decode()
        assert said in page
        assert logged()[-1].endswith(said)


def test_why_a_limit_is_in_force_is_said(client: Login, store: Store) -> None:
    """By the name of a process, which may have any characters."""
    browser = client()
    occupy(store, API, ["one:1"])
    store.declare({"api": 1}, "<b>@c")
    of_it = "1, by &lt;b&gt;@c."
    assert f"The limit in force is the smallest declared last: {of_it}" in shown(browser)
    store.set_limit(7, "api")
    set_by = "The limit in force was set by an operator; the smallest declared last is"
    assert f"{set_by} {of_it}" in shown(browser)


@pytest.mark.parametrize(
    ("given", "limit"), [("0000000000005", 5), (" 7 ", 7), (str(HIGHEST), HIGHEST)]
)
def test_a_limit_may_be_written_in_several_ways(
    client: Login, store: Store, given: str, limit: int
) -> None:
    client().post(address("api", do="limit"), {"limit": given})
    assert limits_set(store) == {"api": limit}


@pytest.mark.parametrize(
    "wrong",
    ["", "0", "-1", "x", "1.5", "²", "9" * 5000, str(HIGHEST + 1), "0" * 11 + "1" + "9" * 20],
)
def test_a_wrong_limit_changes_nothing(client: Login, store: Store, wrong: str) -> None:
    page = client().post(address("api", do="limit"), {"limit": wrong}, follow=True)
    assert "a limit is a whole number from 1" in page.content.decode()
    assert (limits_set(store), logged()) == ({}, [])


def test_pause_and_resume(client: Login, store: Store) -> None:
    browser = client()
    store.set_limit(4, "api")
    browser.post(address("api", do="pause"))
    assert "Paused</strong> until it is resumed" in shown(browser)
    # Who may set limits but not pause must not end a pause.
    for do in ("clear", "limit"):
        page = browser.post(address("api", do=do), {"limit": "3"}, follow=True)
        assert "It stays paused until it is resumed." in page.content.decode()
    browser.post(address("api", do="pause"))
    browser.post(address("api", do="resume"))
    assert store.decisions()["api"].pause is None
    assert limits_set(store) == {"api": 3}
    assert [line.removeprefix("api: ") for line in logged()] == [
        "Paused until it is resumed; no new task starts.",
        "Cleared the limit: none is in force yet; the tasks declare 2. It stays paused until it is resumed.",
        "Set the limit to 3. It stays paused until it is resumed.",
        "Nothing changed: it is paused until it is resumed; no new task starts.",
        "Resumed: the limit is 3 (set).",
    ]


def shown(browser: Any) -> str:
    return str(browser.get(address("api"), {"live": 1}).content.decode())


def test_a_pause_with_an_end(client: Login, store: Store) -> None:
    browser = client()
    browser.post(address("api", do="pause"), {"for": "10m"})
    assert "Paused</strong> for another 10 min" in shown(browser)
    assert "paused</strong>" in browser.get(LIST, {"live": 1}).content.decode()
    page = browser.post(address("api", do="pause"), {"for": "x"}, follow=True)
    assert "such as 10m" in page.content.decode()


def test_what_stays_paused_is_named(client: Login, store: Store) -> None:
    browser = client()
    for key in (None, "7"):
        browser.post(address("export", key, "pause"))
    page = browser.post(address("export", "7", "resume"), follow=True).content.decode()
    assert "stays paused with all of" in page
    page = browser.post(address("export", do="resume"), follow=True).content.decode()
    assert "1 key has its own pause, which stays: 7." in page


def test_a_key_with_a_limit_of_its_own_is_named(client: Login, store: Store) -> None:
    store.set_limit(5, "export/7")
    browser = client()
    page = browser.post(address("export", do="limit"), {"limit": "3"}, follow=True)
    assert "their own limits, which stay in force: 7 (5)." in page.content.decode()


def test_a_key_says_that_the_whole_semaphore_is_paused(client: Login, store: Store) -> None:
    occupy(store, Claim("export", "7", 1), ["one:1"])
    store.set_limit(5, "export/7")
    store.pause("export")
    text = client().get(address("export", "7")).content.decode()
    assert "Paused with the whole semaphore" in text
