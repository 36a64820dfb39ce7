"""Limits and pauses in the admin."""

from __future__ import annotations

import pytest

from celery_semaphore.core.permit import HIGHEST, Claim
from celery_semaphore.core.store import Store
from tests.django.conftest import occupy
from tests.django.pages import API, Login, address, logged


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
    for whole, said in (
        (9, "9 is in force, set for the whole"),
        (0, "the whole semaphore is still paused"),
    ):
        store.set_limit(whole, "export")
        for own, do in ((3, "clear"), (0, "resume")):
            store.set_limit(own, "export/7")
            page = browser.post(address("export", "7", do), follow=True).content.decode()
            assert said in page
            assert said in logged()[-1]


@pytest.mark.parametrize(
    ("given", "limit"), [("0000000000005", 5), (" 7 ", 7), (str(HIGHEST), HIGHEST)]
)
def test_a_limit_may_be_written_in_several_ways(
    client: Login, store: Store, given: str, limit: int
) -> None:
    client().post(address("api", do="limit"), {"limit": given})
    assert store.limits() == {"api": limit}


@pytest.mark.parametrize(
    "wrong",
    ["", "0", "-1", "x", "1.5", "²", "9" * 5000, str(HIGHEST + 1), "0" * 11 + "1" + "9" * 20],
)
def test_a_wrong_limit_changes_nothing(client: Login, store: Store, wrong: str) -> None:
    page = client().post(address("api", do="limit"), {"limit": wrong}, follow=True)
    assert "a limit is a whole number from 1" in page.content.decode()
    assert (store.limits(), logged()) == ({}, [])


def test_pause_and_resume(client: Login, store: Store) -> None:
    browser = client()
    browser.post(address("api", do="pause"))
    assert store.limits() == {"api": 0}
    assert "Paused" in browser.get(address("api"), {"live": 1}).content.decode()
    # Who may set limits but not pause must not end a pause.
    for do in ("limit", "clear"):
        page = browser.post(address("api", do=do), {"limit": "3"}, follow=True)
        assert "resume it first" in page.content.decode()
    browser.post(address("api", do="resume"))
    assert store.limits() == {}
    assert len(logged()) == 2


def test_a_key_with_a_limit_of_its_own_is_named(client: Login, store: Store) -> None:
    store.set_limit(5, "export/7")
    browser = client()
    for do in ("limit", "pause"):
        page = browser.post(address("export", do=do), {"limit": "3"}, follow=True)
        assert "limits of their own, which stay in force: 7 (5)." in page.content.decode()


def test_a_key_says_that_the_whole_semaphore_is_paused(client: Login, store: Store) -> None:
    occupy(store, Claim("export", "7", 1), ["one:1"])
    store.set_limit(0, "export")
    text = client().get(address("export", "7")).content.decode()
    assert "Paused with the whole semaphore" in text


def test_a_key_with_a_limit_of_its_own_goes_on_while_the_semaphore_is_paused(
    client: Login, store: Store
) -> None:
    occupy(store, Claim("export", "7", 1), ["one:1"])
    store.set_limit(0, "export")
    store.set_limit(5, "export/7")
    assert "Paused" not in client().get(address("export", "7")).content.decode()
