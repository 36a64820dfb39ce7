"""Any text is a legal name, key and task's id: each has its page, and is what is acted on."""

from __future__ import annotations

import re
from html import unescape

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.key import names_of, resource_name
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.store import Store
from tests.django.conftest import occupy
from tests.django.pages import API, Login, address, logged, page_of


@pytest.mark.parametrize("key", ["", "a/b c?&#%", "\0\n", "\ud800", "<script>", "_2F", "~"])
def test_any_key_has_a_page_and_an_entry_in_the_log(client: Login, store: Store, key: str) -> None:
    occupy(store, Claim("export", key, 1), ["one:1"])
    browser = client()
    pages = browser.get(address("export")).context["keys"].rows
    assert len(pages) == 1
    text = browser.get(address("export", key)).content.decode()
    assert "<code>one</code>" in text
    assert "<script>" not in text
    assert browser.post(address("export", key, "limit"), {"limit": "4"}).status_code == 302
    assert store.snapshot(resource_name("export", key)).limit == 4
    assert logged() == [f"{resource_name('export', key)}: Set the limit to 4."]
    history = browser.get(address("export", key).replace("change", "history"))
    assert "Set the limit to 4" in history.content.decode()


@pytest.mark.parametrize(("of", "key"), [("export", "é" * 300), ("s" * 200, None)])
def test_what_is_so_long_that_a_digest_is_kept_is_limited_like_others(
    client: Login, store: Store, of: str, key: str | None
) -> None:
    resource, wanted = resource_name(of, key), Claim(of, key, 1)
    occupy(store, wanted, ["one:1"])
    browser = client()
    shown = browser.get(page_of(resource.partition("/")[0]))
    if key:
        assert [each.resource for each in shown.context["keys"].rows] == [resource]
        assert page_of(resource) in shown.content.decode()
    assert "<code>one</code>" in browser.get(page_of(resource)).content.decode()
    browser.post(page_of(resource, "limit"), {"limit": "4"})
    assert store.snapshot(resource).limit == 4
    store.release("one:1", [wanted])
    browser.post(page_of(resource, "pause"))  # nobody uses it now
    assert isinstance(store.acquire([wanted], "two:1"), Refusal)
    assert browser.get(page_of(resource)).context["seen"].paused
    assert len(logged()) == 2


def test_a_key_that_spells_what_is_shown_of_another_has_a_page_of_its_own(
    client: Login, store: Store
) -> None:
    long = Claim("export", "k" * 300, 1)
    mimic = Claim("export", names_of(long.resource)[1], 1)
    occupy(store, long, ["victim:1"])
    occupy(store, mimic, ["mimic:1"])
    browser = client()
    assert len(browser.get(address("export")).context["keys"].rows) == 2
    for claim, task in ((long, "victim"), (mimic, "mimic")):
        assert f"<code>{task}</code>" in browser.get(page_of(claim.resource)).content.decode()
    browser.post(page_of(mimic.resource, "pause"))
    assert list(store.decisions()) == [mimic.resource]
    browser.post(page_of(mimic.resource, "take_away"), {"holder": "victim:1"})
    assert store.snapshot(long.resource).occupied == 1


@pytest.mark.parametrize("odd", ["%FF", "%65xport/7", "export/7/8", "a~b", "a b", "%2f"])
def test_an_address_that_is_no_resources_is_not_found(
    client: Login, store: Store, odd: str
) -> None:
    browser = client()
    for page in (page_of(odd), page_of(odd).replace("change", "history")):
        assert browser.get(page).status_code == 404
    assert browser.post(page_of(odd, "pause")).status_code == 404
    assert (store.decisions(), logged()) == ({}, [])


@pytest.mark.parametrize("task_id", ["\ud800", "a\0b", "50%", "%FF", "a b&holder=c"])
def test_any_id_can_be_taken_away(client: Login, store: Store, task_id: str) -> None:
    occupy(store, API, [f"{task_id}:1", "other:1"])
    browser = client()
    text = browser.get(address("api")).content.decode()
    link = unescape(re.findall(r'href="([^"]*do/take_away/[^"]*)"', text)[0])
    [given] = re.findall(r'name="holder" value="([^"]*)"', browser.get(link).content.decode())
    browser.post(link, {"holder": unescape(given)})
    assert [held.holder for held in store.snapshot("api").holders] == ["other:1"]
    [entry] = logged()
    assert entry.isprintable()
