"""The admin's pages and what can be done there, on a real store."""

from __future__ import annotations

import re
from io import StringIO
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import urlencode

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.key import all_keys_of
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.store import Store
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import SemaphoreError
from celery_semaphore.worker.messages.parked import packed
from tests.conftest import StartServer
from tests.django.conftest import MakeApp, occupy
from tests.django.pages import API, LIST, Login, address, logged
from tests.support.kept_room import keep_room


def test_the_admins_index_leads_to_the_semaphores(client: Login) -> None:
    assert LIST in client().get("/admin/").content.decode()


@pytest.mark.parametrize("everything", [False, True])
def test_a_dump_of_the_database_has_nothing_of_it(project: Any, everything: bool) -> None:
    from django.core.management import call_command

    said = StringIO()
    call_command("dumpdata", use_base_manager=everything, stdout=said)
    assert "celery_semaphore.semaphore" not in said.getvalue()


def test_the_list_shows_what_is_in_use_and_what_is_declared(client: Login, store: Store) -> None:
    occupy(store, API, ["one:1", "two:1", "three:1"])
    browser = client()
    page = browser.get(LIST)
    assert page.status_code == 200
    rows = {each.semaphore: each for each in page.context["semaphores"].rows}
    assert (rows["api"].occupied, rows["api"].waiting, rows["api"].limits) == (2, 1, (2,))
    assert (rows["export"].limits, rows["export"].own_limit) == ((), 1)
    assert '1 <span class="quiet">not in force yet</span>' in page.content.decode()
    store.declare({all_keys_of("export"): 4}, "celery@other")
    (export,) = (r for r in browser.get(LIST).context["semaphores"].rows if r.semaphore == "export")
    assert export.limits == (4,)
    assert "The limit of each key is <strong>4</strong>" in (
        browser.get(address("export")).content.decode()
    )
    text = page.content.decode()
    assert re.findall('data-label="Oldest wait">([0-9]|\u2013)', text) == ["0", "\u2013"]


def test_the_oldest_wait_is_shown_of_a_semaphore_and_of_each_key(
    client: Login, store: Store
) -> None:
    occupy(store, API, ["one:1", "two:1", "three:1"])
    occupy(store, Claim("export", "7", 1), ["four:1", "five:1"])
    browser = client()
    text = browser.get(address("api")).content.decode()
    assert re.search(r"<strong>1</strong> waiting, the oldest for \d\.\d s", text)
    assert re.search(
        r'data-label="Oldest wait">\d\.\d s<', browser.get(address("export")).content.decode()
    )


def test_a_semaphores_page_shows_permits_and_waiters(client: Login, store: Store) -> None:
    occupy(store, API, ["one:1", "two:1", "three:1"])
    text = client().get(address("api")).content.decode()
    assert "<strong>2</strong> of <strong>2</strong> in use" in text
    for task_id in ("one", "two", "three"):
        assert f"<code>{task_id}</code>" in text


def test_kept_room_is_shown(client: Login, store: Store) -> None:
    """H12: else no task runs beside free permits, and the page does not say why."""
    keep_room(store, Claim("export", "7", 1))
    occupy(store, Claim("export", "8", 1), ["one:1"])
    occupy(store, Claim("export", "7", 1), ["two:1"])
    browser = client()
    text = browser.get(address("export", "7")).content.decode()
    assert "in use, <strong>1</strong> kept for waiting tasks," in text
    for page in (LIST, address("export")):
        text = browser.get(page).content.decode()
        assert len(re.findall("1 kept for waiting tasks", text)) == 1


def test_a_semaphore_with_keys_shows_them_and_each_has_a_page(client: Login, store: Store) -> None:
    occupy(store, Claim("export", "7", 1), ["one:1", "two:1"])
    browser = client()
    assert address("export", "7") in browser.get(address("export")).content.decode()
    text = browser.get(address("export", "7")).content.decode()
    assert "<code>one</code>" in text
    assert "<code>two</code>" in text


def test_the_live_part_comes_alone(client: Login, store: Store) -> None:
    text = client().get(address("api"), {"live": "1"}).content.decode()
    assert "No permits in use" in text
    assert "<html" not in text
    assert "<html" not in client("view").get(LIST, {"live": "1"}).content.decode()


def test_waiters_come_in_pages(client: Login, store: Store) -> None:
    occupy(store, API, [f"task-{n:04}:1" for n in range(1002)])
    browser = client()
    first, last = (
        browser.get(address("api"), {"p": number}).context["waiters"] for number in ("1", "20")
    )
    assert [each.position for each in first.rows] == list(range(50))
    assert [each.task_id for each in last.rows] == [f"task-{n:04}" for n in range(952, 1002)]
    assert last.numbers[-1] == 20
    for odd in ("0", "99", "x", "-1", "²", "9" * 50):
        assert browser.get(address("api"), {"p": odd}).status_code == 200
    beyond = browser.get(address("api"), {"p": "99"}).context["waiters"]
    assert [each.ticket for each in beyond.rows] == [each.ticket for each in last.rows]


def test_links_to_pages_are_numbers_in_any_language(client: Login, store: Store) -> None:
    from django.test import override_settings

    wait = Wait(Kind.REQUEUE, longest=3600, shortest=3000)
    for n in range(1003):
        store.acquire([API], f"task-{n:04}:1", wait)
    browser = client()
    with (
        override_settings(USE_THOUSAND_SEPARATOR=True),
        mock.patch("celery_semaphore.django.pages.PER_PAGE", 1),
    ):
        page = browser.get(address("api"))
        last = re.findall(r'href="(\?p=[^"]*)"', page.content.decode())[-1]
        assert last == "?p=1001"
        assert [w.task_id for w in browser.get(address("api") + last).context["waiters"].rows] == [
            "task-1002"
        ]


def test_a_permit_is_taken_away_after_a_question(client: Login, store: Store) -> None:
    occupy(store, API, ["one:1", "two:1"])
    browser = client()
    asked = browser.get(address("api", do="take_away"), {"holder": "one:1"})
    assert "Take this permit away?" in asked.content.decode()
    assert store.snapshot("api").occupied == 2
    browser.post(address("api", do="take_away"), {"holder": "one:1"})
    assert [held.holder for held in store.snapshot("api").holders] == ["two:1"]
    assert isinstance(store.acquire([API], "one:1"), Refusal)
    assert logged() == ["api: Took away the permit of one."]


def test_what_is_gone_cannot_be_taken_away(client: Login, store: Store) -> None:
    page = client().post(address("api", do="take_away"), {"holder": "gone:1"}, follow=True)
    assert "Not done" in page.content.decode()
    assert logged() == []


def park(store: Store, *task_ids: str, claim: Claim = API) -> None:
    for task_id in task_ids:
        answer = store.acquire([claim], f"{task_id}:1", Wait(Kind.PARK))
        assert isinstance(answer, Refusal)
        assert answer.ticket
        message = SimpleNamespace(
            headers={"id": task_id, "task": "call_api"},
            properties={},
            body=b"[[], {}, {}]",
            content_type="application/json",
            content_encoding="utf-8",
        )
        payload = packed(message, "celery", "celery.granted", 1)
        store.attach(answer.ticket, [claim], payload, name=task_id)


def test_a_waiting_task_is_promoted(client: Login, store: Store) -> None:
    occupy(store, API, ["one:1", "two:1"])
    park(store, "three", "four")
    occupy(store, API, ["five:1"])
    park(store, "six")
    browser, do = client(), address("api", do="promote")
    page = browser.get(address("api")).content.decode()
    found = re.findall(rf'href="{do}\?task=([^"]*)"', page)
    assert found == ["four", "six"]  # not "five", which is in transit
    assert "ahead of all other waiting tasks." in browser.get(do, {"task": "six"}).content.decode()
    browser.post(do, {"task": "six"})
    waiters = browser.get(address("api")).context["waiters"].rows
    assert [each.task_id for each in waiters] == ["six", "three", "four", "five"]
    assert logged() == ["api: Promoted the waiting task six."]


def test_several_are_promoted_or_dropped_together(client: Login, store: Store) -> None:
    occupy(store, API, ["one:1", "two:1"])
    park(store, "three", "four", "five", "six/7")
    browser, do = client(), address("api", do="promote")
    text = browser.get(address("api")).content.decode()
    assert re.findall('name="task" value="([^"]*)"', text) == ["three", "four", "five", "six%2F7"]
    asked = browser.get(do, {"task": ["five", "six%2F7"]}).content.decode()
    assert re.findall('type="hidden" name="task" value="([^"]*)"', asked) == ["five", "six%2F7"]
    assert "semaphore-destroys" not in asked
    browser.post(do, {"task": ["five", "six%2F7"]})
    waiters = browser.get(address("api")).context["waiters"].rows
    assert [each.task_id for each in waiters] == ["five", "six/7", "three", "four"]
    assert logged() == ["api: Promoted the waiting tasks five, six/7."]
    asked = browser.get(address("api", do="drop"), {"task": "five"}).content.decode()
    assert "semaphore-destroys" in asked
    page = browser.post(address("api", do="drop"), follow=True)
    assert "no task is selected" in page.content.decode()
    page = browser.get(address("api", do="drop"), follow=True)
    assert "nothing is selected" in page.content.decode()


def test_what_began_meanwhile_keeps_none_from_being_promoted(client: Login, store: Store) -> None:
    """Nor does one in transit, of which the page has a box, as it can be dropped."""
    occupy(store, API, ["one:1", "two:1"])
    park(store, "three", "four", "five")
    occupy(store, API, ["six:1"])
    browser, do = client(), address("api", do="promote")
    browser.post(do, {"task": ["six", "gone", "five", "four", "five"]})
    waiters = browser.get(address("api")).context["waiters"].rows
    assert [each.task_id for each in waiters] == ["four", "five", "three", "six"]
    assert logged() == [
        "api: Promoted the waiting tasks four, five. Not in line any more: six, gone."
    ]
    page = browser.post(do, {"task": "gone"}, follow=True).content.decode()
    assert "gone does not wait here" in page
    page = browser.post(do, {"task": "six"}, follow=True).content.decode()
    assert "in transit" in page


def test_a_purge_is_logged_though_the_broker_fails(client: Login, store: Store) -> None:
    """The parked tasks have ended, and nothing brings them back."""
    occupy(store, API, ["one:1", "two:1"])
    park(store, "three")
    occupy(store, API, ["four:1"])
    browser = client()
    error = SemaphoreError("the workers could not be reached")
    with mock.patch("celery_semaphore.django.project.revoke", side_effect=error):
        page = browser.post(address("api", do="purge"), follow=True).content.decode()
    assert "Purged 1 parked task(s). Still waiting: 1 other task(s)" in page
    assert len(logged()) == 1


def test_a_purge_that_fails_in_the_middle_is_logged(
    client: Login, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Some tasks have ended then."""
    occupy(store, API, ["one:1", "two:1"])
    park(store, "three", "four")
    browser = client()
    with mock.patch(
        "celery_semaphore.ops.purge.store_revoked", side_effect=[None, OSError("secret")]
    ):
        page = browser.post(address("api", do="purge"), follow=True)
    (said,) = re.findall(r'class="error">([^<]+)<', page.content.decode())
    assert said.startswith("Drop: it failed, and may have taken effect in part. (OSError;")
    assert "secret" not in page.content.decode()
    assert "OSError: secret" in caplog.text
    assert len(logged()) == 1
    assert store.snapshot("api").waiting < 2


def test_a_purge_says_how_many_and_where(client: Login, store: Store) -> None:
    """A semaphore may be used with keys, and without one."""
    for claim in (Claim("export", None, 1), Claim("export", "7", 1)):
        occupy(store, claim, [f"one {claim.key}:1"])
        park(store, f"two {claim.key}", claim=claim)
    browser, do = client(), address("export", do="purge")
    assert browser.get(address("export")).content.decode().count(do) == 1
    assert "at all keys together: 2." in browser.get(do).content.decode()


def test_as_many_as_a_page_shows_fit_into_an_address(client: Login, store: Store) -> None:
    """gunicorn, for one, takes 4,094 bytes."""
    occupy(store, API, ["one:1", "two:1"])
    park(store, *(f"{n:036}" for n in range(60)))
    browser = client()
    tasks = re.findall('name="task" value="([^"]*)"', browser.get(address("api")).content.decode())
    asked = f"{address('api', do='promote')}?{urlencode([('task', each) for each in tasks])}"
    assert len(tasks) == 50
    assert len(asked) < 4000
    assert browser.get(asked).status_code == 200


def test_all_that_are_parked_are_purged(client: Login, store: Store) -> None:
    """Without a worker; and those that a worker keeps are said to wait still."""
    occupy(store, API, ["one:1", "two:1"])
    park(store, "three")
    occupy(store, API, ["four:1"])
    page = client().post(address("api", do="purge"), follow=True).content.decode()
    assert "Purged 1 parked task(s). Still waiting: 1 other task(s)" in page
    assert [waiter.ticket.nonce for waiter in store.snapshot("api").waiters] == ["four:1"]


def test_all_keys_are_purged_together(client: Login, store: Store) -> None:
    browser, page = client(), address("export")
    claims = [Claim("export", key, 1) for key in "78"]
    for claim in claims:
        occupy(store, claim, [f"one {claim.key}:1"])
    assert address("export", do="purge") not in browser.get(page).content.decode()
    for claim in claims:
        park(store, f"two {claim.key}", claim=claim)
    assert address("export", do="purge") in browser.get(page).content.decode()
    browser.post(address("export", do="purge"))
    assert [seen.waiting for seen in store.snapshots(["export/7", "export/8"])] == [0, 0]


@pytest.mark.parametrize(("limit", "is_said"), [(2, True), (3, False)])
def test_a_semaphore_is_saturated_if_tasks_wait_without_room(
    client: Login, store: Store, limit: int, is_said: bool
) -> None:
    browser = client()
    occupy(store, API, ["one:1", "two:1"])
    assert "Saturated" not in browser.get(address("api")).content.decode()
    occupy(store, API, ["three:1"])
    store.pause("api", None)
    store.set_limit(limit, "api")
    text = browser.get(address("api")).content.decode()
    assert ("Saturated" in text, 'optimum="0"' in text, "Paused" in text) == (
        is_said,
        is_said,
        True,
    )


def test_only_what_applies_is_offered(client: Login, store: Store) -> None:
    browser, dos = client(), ("pause", "resume", "clear")

    def offered(key: str | None = None) -> list[str]:
        text = browser.get(address("export", key)).content.decode()
        return [do for do in dos if address("export", key, do) in text]

    assert offered() == ["pause"]
    store.pause("export", 60.0)
    store.set_limit(2, "export")
    assert offered() == ["pause", "resume", "clear"]
    occupy(store, Claim("export", "7", 1), ["one:1"])
    assert offered("7") == ["pause"]  # what was decided for all keys is ended there


def test_lists_are_sorted(client: Login, store: Store) -> None:
    for holders, key in ((2, "a"), (4, "b"), (3, "c")):
        occupy(store, Claim("export", key, 1), [f"{key} {n}:1" for n in range(holders)])
    occupy(store, API, [f"{n}:1" for n in range(5)])
    browser = client()

    def keys(order: str) -> list[str]:
        rows = browser.get(address("export"), {"o": order}).context["keys"].rows
        return [row.key for row in rows]

    def names(order: str) -> list[str]:
        rows = browser.get(LIST, {"o": order}).context["semaphores"].rows
        return [row.semaphore for row in rows]

    assert (keys(""), keys("waiting"), keys("oldest")) == (list("bca"), list("bca"), list("abc"))
    assert (names(""), names("waiting"), names("oldest")) == (
        ["api", "export"],
        ["export", "api"],
        ["export", "api"],
    )
    text = browser.get(LIST, {"o": "oldest"}).content.decode()
    assert re.findall('aria-sort="descending"><a href="([^"]*)"[^>]*>([^<]*)<', text) == [
        ("?", "Oldest wait")
    ]
    assert "aria-sort" not in browser.get(LIST, {"o": "nonsense"}).content.decode()


def test_dropping_needs_workers_that_remember_it(client: Login, store: Store) -> None:
    occupy(store, API, ["one:1", "two:1", "three:1"])
    page = client().post(address("api", do="drop"), {"task": "three"}, follow=True)
    assert "no worker answered" in page.content.decode()
    assert logged() == []


@pytest.mark.parametrize(
    ("do", "permission"),
    [
        ("limit", "limit"),
        ("clear", "limit"),
        ("pause", "pause"),
        ("resume", "pause"),
        ("take_away", "take_away"),
        ("promote", "promote"),
        ("drop", "drop"),
        ("purge", "drop"),
    ],
)
def test_each_action_has_a_permission_of_its_own(
    client: Login, store: Store, do: str, permission: str
) -> None:
    others = {"limit", "pause", "take_away", "promote", "drop"} - {permission}
    occupy(store, API, ["one:1", "two:1"])
    park(store, "three", "four")
    if do == "resume":
        store.pause("api", 60.0)
    if do == "clear":
        store.set_limit(2, "api")
    decided = set(store.decisions())
    assert address("api", do=do) in client().get(address("api")).content.decode()
    browser = client("view", *others)
    assert address("api", do=do) not in browser.get(address("api")).content.decode()
    assert browser.post(address("api", do=do), {"limit": "9"}).status_code == 403
    assert client(permission).post(address("api", do=do), {"limit": "9"}).status_code == 403
    assert (set(store.decisions()), logged()) == (decided, [])
    assert client("view", permission).post(address("api", do=do), {"limit": "9"}).status_code == 302


def test_who_may_not_look_sees_nothing(client: Login) -> None:
    browser = client("limit")
    for page in (LIST, address("api")):
        assert browser.get(page).status_code == 403
    from django.test import Client

    assert Client().get(LIST, {"live": 1}).status_code == 302  # to the login


def test_there_is_nothing_to_add_change_or_delete(client: Login) -> None:
    browser = client()
    assert browser.get(f"{LIST}add/").status_code == 403
    assert browser.post(address("api").replace("change", "delete")).status_code == 403
    assert browser.get(address("api", do="nonsense")).status_code == 404


def test_a_forged_form_does_nothing(project: Any, client: Login, store: Store) -> None:
    from django.test import Client

    forger = Client(enforce_csrf_checks=True)
    forger.cookies = client().cookies
    assert forger.post(address("api", do="pause")).status_code == 403
    assert store.decisions() == {}


def test_a_click_on_a_link_does_nothing(client: Login, store: Store) -> None:
    assert client().get(address("api", do="pause")).status_code == 302
    assert store.decisions() == {}


def test_an_unknown_semaphore_is_not_found(client: Login) -> None:
    page = client().get(address("apj"))
    assert page.status_code == 404
    assert "did you mean &#x27;api&#x27;" in page.content.decode()
    assert "<form" not in page.content.decode().partition('id="content"')[2]


@pytest.mark.parametrize("do", ["limit", "clear", "pause"])
@pytest.mark.parametrize("key", [None, "7"])
def test_nothing_is_done_to_an_unknown_semaphore(
    client: Login, store: Store, do: str, key: str | None
) -> None:
    page = client().post(address("apj", key, do), {"limit": "3"})
    assert page.status_code == 302
    assert (store.decisions(), logged()) == ({}, [])


def test_a_store_out_of_reach_is_said_and_the_page_stays(
    client: Login, make_app: MakeApp, start_valkey: StartServer
) -> None:
    server = start_valkey()
    make_app(CELERY_SEMAPHORE_URL=server.url, CELERY_SEMAPHORE_TIMEOUT=0.5)
    browser = client()
    server.stop()
    for page in (LIST, address("api")):
        whole, live = browser.get(page), browser.get(page, {"live": "1"})
        assert (whole.status_code, live.status_code) == (503, 200)
        assert "The store is out of reach" in live.content.decode()
    page = browser.post(address("api", do="pause"), follow=True)
    assert "it may or may not have taken effect" in page.content.decode()
    assert logged() == [
        "api: pause: the store did not answer, so it may or may not have taken effect."
    ]


def test_wrong_settings_are_said(client: Login, make_app: MakeApp) -> None:
    make_app(CELERY_SEMAPHORE_URL="reddis://localhost")
    page = client().get(LIST)
    assert page.status_code == 500
    assert "semaphore_url has the scheme" in page.content.decode()


def test_a_waiting_task_is_found_by_its_id(client: Login, store: Store) -> None:
    occupy(store, API, ["one:1", "two:1", "three:1"])
    browser = client()
    assert 'name="q"' in browser.get(LIST).content.decode()
    page = browser.get(LIST, {"q": " three "})
    assert page.status_code == 200
    text = page.content.decode()
    assert "<p>three waits for api.</p>" in text
    assert "<p>Permits in use: 2 of 2.</p>" in text
    assert f'<a href="{address("api")}">api</a>' in text
    assert "No worker answered within 0.7 s: tasks and workers are not named." in text
    live = browser.get(LIST, {"q": "three", "live": "1"}).content.decode()
    assert "<p>three waits for api.</p>" in live
    assert "<html" not in live


def test_a_running_and_an_unknown_task_are_told(client: Login, store: Store) -> None:
    occupy(store, Claim("export", "7", 1), ["one:1"])
    browser = client()
    text = browser.get(LIST, {"q": "one"}).content.decode()
    assert "It has held a permit of export at key 7 for" in text
    assert f'href="{address("export", "7")}"' in text
    text = browser.get(LIST, {"q": "<b>no\x1b"}).content.decode()
    assert "neither waits for a permit nor holds one." in text
    assert "<b>no" not in text
    assert "\x1b" not in text
    text = browser.get(LIST, {"q": " "}).content.decode()
    assert "data-reasons" not in text


def test_semaphores_and_keys_are_found_by_a_part_of_their_names(
    client: Login, store: Store
) -> None:
    for key in ("Acme", "other", "x/acme"):
        occupy(store, Claim("export", key, 1), [f"{key} one:1"])
    browser = client()

    def found(text: str) -> tuple[list[str], bool]:
        page = browser.get(LIST, {"q": text})
        assert page.status_code == 200
        names = [str(each) for each in page.context["names"]]
        return names, "neither waits for a permit" in page.content.decode()

    assert found("acme") == (["export [Acme]", "export [x/acme]"], False)
    assert found("PI") == (["api"], False)
    assert found("export") == (
        ["export", "export [Acme]", "export [other]", "export [x/acme]"],
        False,
    )
    assert found("nobody") == ([], True)
    occupy(store, Claim("export", "50% off", 1), ["job%41:1"])
    assert found("50% off") == (["export [50% off]"], False)
    text = browser.get(LIST, {"q": "job%41"}).content.decode()
    assert 'value="job%41"' in text
    assert "It has held a permit of export" in text
    text = browser.get(LIST, {"q": "acme"}).content.decode()
    assert f'<a href="{address("export", "x/acme")}">export [x/acme]</a>' in text


def test_only_who_may_look_finds_a_task(client: Login, store: Store) -> None:
    occupy(store, API, ["one:1", "two:1", "three:1"])
    assert client("limit").get(LIST, {"q": "three"}).status_code == 403
