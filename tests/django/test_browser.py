"""The admin in a real browser, beside a real worker."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

import celery_semaphore.django
from celery_semaphore.stores import store_from_url
from tests.django.conftest import DJANGO, ENVIRONMENT
from tests.support.forked import ForkedProcess
from tests.support.process import Process, free_port, listening, wait_until
from tests.support.servers import ValkeyServer, in_ci
from tests.support.worker import CeleryWorker

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

from tests.support import browser as browsers  # noqa: E402 - needs playwright

pytestmark = pytest.mark.slow

LIVE = Path(celery_semaphore.django.__path__[0]) / "static" / "celery_semaphore" / "live.js"
SEMAPHORES = "/admin/celery_semaphore/semaphore/"
# Where the pictures go that somebody wants to look at.
PICTURES = os.environ.get("PICTURES")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    reason = browsers.why_missing()
    if reason and in_ci():
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    with browsers.chromium() as browser:
        yield browser


class Managing(ForkedProcess):
    """A command of the project's manage.py."""

    more = DJANGO


def manage(env: dict[str, str], *words: str) -> Process:
    return Managing(words[0], [sys.executable, "-m", "tests.django.manage", *words], env=env)


@pytest.fixture(scope="session")
def database(run_directory: Path) -> Path:
    """A database with its tables and the superuser, to be copied; one process makes it for all of the run."""
    path = run_directory / "django.sqlite3"
    with (run_directory / "django.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            migrate(path.with_suffix(".new")).rename(path)
    return path


def migrate(path: Path) -> Path:
    path.unlink(missing_ok=True)
    env = {
        **ENVIRONMENT,
        "DJANGO_SUPERUSER_PASSWORD": "secret",
        "STORE": "memory://",  # none of these commands uses it
        "SQLITE": str(path),
    }
    user = ["createsuperuser", "--noinput", "--username", "admin", "--email", "a@example.com"]
    for words in (["migrate"], user):
        with manage(env, *words) as command:
            assert command.wait(60) == 0, command.log_tail()
    return path


@pytest.fixture
def env(valkey: ValkeyServer, database: Path, tmp_path: Path) -> dict[str, str]:
    return {
        **ENVIRONMENT,
        "SQLITE": str(shutil.copy(database, tmp_path)),
        "BROKER": valkey.database(0),
        "STORE": valkey.database(1),
    }


@pytest.fixture
def web(env: dict[str, str]) -> Iterator[str]:
    """The project's web server; its address."""
    port = free_port()
    with manage(env, "runserver", "--noreload", "--insecure", str(port)) as server:
        server.wait_until(lambda: listening(port), 30, "the web server")
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def worker(env: dict[str, str]) -> Iterator[CeleryWorker]:
    with CeleryWorker("tests.django.project", concurrency=4, env=env) as worker:
        yield worker
        worker.kill_group()  # its tasks would keep a warm shutdown waiting


@pytest.fixture
def page(browser: Any, web: str) -> Iterator[Any]:
    """Somebody who has logged in, in a browser that says when something did not work."""
    context = browser.new_context(base_url=web, viewport={"width": 1280, "height": 800})
    context.route("**/live.js", refresh_often)
    page, problems = context.new_page(), []
    page.on("console", lambda said: problems.append(f"{said.text} {said.location}"))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto("/admin/")
    page.fill("#id_username", "admin")
    page.fill("#id_password", "secret")
    page.click("[type=submit]")
    yield page
    context.close()
    serious = [said for said in problems if "favicon.ico" not in said and "live=1" not in said]
    assert not serious


def refresh_often(route: Any) -> None:
    """Four times as often as for users, for whom these tests wait."""
    script = LIVE.read_text("utf-8")
    assert script.count("LEAST = 2000;") == 1
    route.fulfill(
        body=script.replace("LEAST = 2000;", "LEAST = 500;"), content_type="text/javascript"
    )


def picture(page: Any, name: str) -> None:
    for scheme in ("dark", "light") if PICTURES else ():
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=f"{PICTURES}/{name}-{scheme}.png", full_page=True)


def pictures(page: Any, name: str) -> None:
    """On a desktop, on a phone, in the dark."""
    page.wait_for_load_state()  # Django's stylesheet for phones comes last
    picture(page, name)
    page.set_viewport_size({"width": 390, "height": 844})
    picture(page, f"{name}-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1280, "height": 800})


@pytest.fixture
def send(env: dict[str, str]) -> Any:
    client = Celery("client", broker=env["BROKER"])
    return lambda name, *args: client.send_task(name, args).id


def test_a_workers_permits_appear_and_a_new_limit_takes_effect(
    page: Any, worker: CeleryWorker, send: Any
) -> None:
    page.get_by_role("link", name="Semaphores", exact=True).first.click()
    page.get_by_role("link", name="api", exact=True).click()
    expect(page.get_by_text("No permits in use")).to_be_visible()

    ids = {send("call_api", 300) for _ in range(4)}
    permits, waiters = (
        page.locator("[data-permits] tbody tr"),
        page.locator("[data-waiters] tbody tr"),
    )
    expect(permits).to_have_count(2, timeout=20_000)  # by itself, the page was not loaded anew
    expect(waiters).to_have_count(2, timeout=20_000)
    expect(permits.first).to_contain_text("call_api", timeout=20_000)
    expect(permits.first).to_contain_text(worker.hostname)
    shown = set(
        re.findall(
            r"[0-9a-f-]{36}", "".join([*permits.all_inner_texts(), *waiters.all_inner_texts()])
        )
    )
    assert shown == ids
    expect(page.locator("[data-hour]")).to_be_visible(timeout=20_000)
    expect(page.locator("[data-hour-most-used]")).to_have_text("2")
    expect(page.locator("[data-hour-most-waiting]")).to_have_text("2")
    pictures(page, "api")
    points = lambda: page.evaluate(  # noqa: E731
        "JSON.parse(sessionStorage.getItem(`semaphore-hour:${location.pathname}`))"
    )
    before = points()
    assert before[-1][1:] == [2, 2]

    page.get_by_label("Limit").fill("3")
    page.get_by_role("button", name="Set").click()
    expect(page.get_by_text("Set the limit to 3.")).to_be_visible()
    expect(permits).to_have_count(3, timeout=30_000)
    expect(waiters).to_have_count(1)
    assert points()[: len(before)] == before  # the line goes on when the page is loaded anew
    expect(page.locator("[data-hour-most-used]")).to_have_text("3")
    drawn = page.locator("[data-hour-used]").get_attribute("d")
    heights = [float(height) for height in re.findall(r"V([0-9.]+)", drawn)]
    assert heights[-1] == min(heights) == 1, "3 of 3 are at the top"
    assert heights[0] > heights[-1]

    page.get_by_role("link", name="Drop", exact=True).click()
    expect(page.get_by_role("heading", name="Drop these waiting tasks?")).to_be_visible()
    pictures(page, "drop")
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_text("Dropped the waiting task")).to_be_visible()

    page.get_by_role("link", name="Take away").first.click()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_text("Took away the permit")).to_be_visible()
    expect(permits).to_have_count(2, timeout=30_000)

    page.get_by_role("link", name="History").click()
    for line in ("Set the limit to 3.", "Dropped the waiting task", "Took away the permit"):
        expect(page.get_by_text(line)).to_be_visible()
    picture(page, "history")


def test_a_parked_task_is_promoted(page: Any, worker: CeleryWorker, send: Any) -> None:
    page.goto(f"{SEMAPHORES}disk/change/")
    waiters = page.locator("[data-waiters] tbody tr")
    ids = []
    for waiting in range(4):  # the first one runs
        ids.append(send("copy_disk", 300))
        expect(waiters).to_have_count(waiting, timeout=20_000)
        expect(page.get_by_text(ids[-1])).to_be_visible(timeout=20_000)
    pictures(page, "parked")
    waiters.filter(has_text=ids[3]).get_by_role("link", name="Promote").click()
    expect(page.get_by_text("ahead of all other waiting tasks.")).to_be_visible()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_text(f"Promoted the waiting task {ids[3]}.")).to_be_visible()
    for place, task_id in enumerate((ids[3], ids[1], ids[2])):
        expect(waiters.nth(place)).to_contain_text(task_id)
    for task_id in ids[1:3]:
        page.get_by_label(f"Select {task_id}").check()
    with page.expect_response(lambda answer: "live" in answer.url):
        pass
    page.wait_for_timeout(200)
    for task_id in ids[1:]:  # what was selected stays so when the page refreshes itself
        expect(page.get_by_label(f"Select {task_id}")).to_be_checked(checked=task_id != ids[3])
    page.get_by_role("button", name="Drop the selected").click()
    pictures(page, "drop-several")
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_text("Dropped the waiting tasks")).to_be_visible()
    expect(waiters).to_have_count(1, timeout=20_000)
    page.get_by_role("link", name="Purge all 1").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_text("Purged 1 parked task(s).")).to_be_visible()
    expect(page.get_by_text("No task waits.")).to_be_visible()


def test_the_list_and_the_keys_are_live_too(page: Any, worker: CeleryWorker, send: Any) -> None:
    page.goto(SEMAPHORES)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="export"))
    expect(row).to_be_visible()
    for tenant in ("7", "7", "a long name of a tenant / with a slash"):
        send("export", tenant, 300)
    expect(row.locator("[data-label='In use']")).to_have_text("2 1 key saturated", timeout=20_000)
    expect(row.locator("[data-label=Waiting]")).to_have_text("1", timeout=20_000)
    pictures(page, "semaphores")
    row.get_by_role("link").click()
    page.wait_for_url("**/export/change/")
    pictures(page, "export")
    page.get_by_role("link", name="a long name").click()
    expect(page.locator("[data-permits] tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".semaphore-paused")).to_have_text("Paused")
    pictures(page, "paused")


def test_what_is_being_read_stays(
    page: Any, worker: CeleryWorker, send: Any, env: dict[str, str]
) -> None:
    page.goto(f"{SEMAPHORES}api/change/")
    quiet = page.get_by_text("No permits in use")
    expect(quiet).to_be_visible()
    page.evaluate(
        "document.getSelection().selectAllChildren(document.querySelector('[data-live] .quiet'))"
    )
    send("call_api", 300)
    store = store_from_url(env["STORE"])
    wait_until(lambda: store.snapshot("api").occupied == 1, 20, "a permit is out")
    store.close()
    page.wait_for_timeout(2000)  # the point is that nothing happens: more than one refresh
    expect(quiet).to_be_visible()
    page.evaluate("document.getSelection().removeAllRanges()")
    expect(page.locator("[data-permits] tbody tr")).to_have_count(1, timeout=20_000)
    page.get_by_role("link", name="Take away").focus()
    with page.expect_response(lambda answer: "live" in answer.url):
        pass
    page.wait_for_timeout(200)
    assert page.evaluate("document.activeElement.textContent") == "Take away"
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").focus()
    with page.expect_response(lambda answer: "live" in answer.url):
        pass
    page.wait_for_timeout(200)
    assert page.evaluate("document.activeElement.textContent") == "Resume"


def test_a_page_says_that_it_is_not_refreshed_and_goes_on_by_itself(
    page: Any, browser: Any
) -> None:
    page.goto(SEMAPHORES)
    state = page.locator("[data-live-state]")
    page.route("**/*live=1", lambda route: route.fulfill(status=502))
    expect(state).to_contain_text("Not refreshed since", timeout=10_000)
    page.unroute("**/*live=1")
    expect(state).to_have_text("", timeout=10_000)
    cookies = page.context.cookies()
    page.context.clear_cookies()
    expect(state).to_contain_text("you were logged out", timeout=10_000)
    page.context.add_cookies(cookies)
    expect(state).to_have_text("", timeout=10_000)
