"""The page of the exporter, in a real exporter on a real store."""

from __future__ import annotations

import re
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.key import resource_name
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.ops.inspector import Inspector
from celery_semaphore.ops.metrics.page import Page
from celery_semaphore.ops.task_view import TaskState, TaskView
from tests.ops.conftest import Command
from tests.support.autoscaler import get
from tests.support.process import free_port
from tests.worker.conftest import Site

from .conftest import Exporting, StartExporter

HOSTILE = "<script>alert('k')</script>\n\x1b[31m& %zz"
PAGE = "/page"


@pytest.fixture
def exporter(site: Site, start_exporter: StartExporter) -> Exporting:
    site.lease = 60.0
    exporter = start_exporter("--page", "--interval", "60", env=site.env())
    exporter.wait_up()
    return exporter


def occupy(site: Site, claim: Claim, *holders: str) -> None:
    store, wait = site.store(), Wait(Kind.REQUEUE, longest=3600, shortest=3000)
    for holder in holders:
        store.acquire([claim], holder, wait)
    store.close()


def shown(exporter: Exporting, asked: str = "") -> str:
    status, text = get(exporter.port, PAGE + asked)
    assert status == 200, text
    return text


def test_a_list_leads_to_each_semaphore_and_key(site: Site, exporter: Exporting) -> None:
    occupy(site, Claim("tenant", HOSTILE, 1), "one:1", "two:1")
    listed = shown(exporter)
    assert re.search(r'<td><a href="/page\?at=tenant">tenant</a></td><td>1</td><td>1</td>', listed)
    assert 'http-equiv="refresh"' in listed
    of_tenant = shown(exporter, "?at=tenant")
    assert "1 in use, 1 waiting" in of_tenant
    (link,) = re.findall(r'<td><a href="/page(\?at=tenant[^"]+)">', of_tenant)
    of_key = shown(exporter, link.replace("&amp;", "&"))
    assert "1 of 1 in use, 1 waiting" in of_key
    for text in (listed, of_tenant, of_key):
        assert "<script" not in text
        assert "\x1b" not in text


def test_its_reload_can_be_stopped(site: Site, exporter: Exporting) -> None:
    occupy(site, Claim("tenant", HOSTILE, 1), "one:1", "two:1")
    at = quote(resource_name("tenant", HOSTILE), safe="")
    (link,) = re.findall(
        r'<a href="/page(\?[^"]+)">Stop reloading</a>', shown(exporter, f"?at={at}")
    )
    stopped = shown(exporter, link.replace("&amp;", "&"))
    assert "1 of 1 in use, 1 waiting" in stopped
    assert 'http-equiv="refresh"' not in stopped
    (link,) = re.findall(r'<a href="/page(\?[^"]+)">Reload</a>', stopped)
    assert 'http-equiv="refresh"' in shown(exporter, link)


def test_it_says_why_a_task_waits(site: Site, exporter: Exporting) -> None:
    occupy(site, Claim("api", None, 1), "one:1", "two:1")
    asked = shown(exporter, "?task=")
    assert 'name="task"' in asked
    assert "refresh" not in asked  # it would interrupt the typing
    text = shown(exporter, "?task=two")
    assert "two waits for api." in text
    assert "Permits in use: 1 of 1." in text
    text = shown(exporter, f"?task={quote(HOSTILE)}")
    assert "neither waits for a permit nor holds one" in text
    assert "<script" not in text


@pytest.mark.parametrize(
    "at", ["apj", quote(HOSTILE), quote(resource_name("a/b", None) + "/~"), ""]
)
def test_an_unknown_name_is_not_found(site: Site, exporter: Exporting, at: str) -> None:
    status, text = get(exporter.port, f"{PAGE}?at={at}")
    assert status == 404
    assert "<script" not in text


def test_without_a_store(site: Site, start_exporter: StartExporter) -> None:
    secret = f"redis://:canary-4711@127.0.0.1:{free_port()}/0"
    exporter = start_exporter("--page", env=site.env() | {"STORE": secret})
    exporter.wait_up(0)
    status, text = get(exporter.port, PAGE)
    assert status == 503
    assert "The store does not answer." in text
    assert "canary" not in text + exporter.log()


def test_only_if_it_is_wanted(site: Site, start_exporter: StartExporter) -> None:
    exporter = start_exporter(env=site.env())
    exporter.wait_up()
    assert get(exporter.port, PAGE)[0] == 404
    assert "Page at" not in exporter.log()


def test_its_address_and_who_can_see_it_are_said(exporter: Exporting) -> None:
    said = f"Page at http://127.0.0.1:{exporter.port}/page: all that can reach this address"
    exporter.wait_until(lambda: said in exporter.log(), 10, "it is said")


def test_one_that_hangs_keeps_no_other_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reload beside it would keep a thread of the exporter."""
    monkeypatch.setattr("celery_semaphore.ops.metrics.page.PATIENCE_S", 0.1)
    begun, go_on, said = Event(), Event(), list[str]()

    def hang(_: str) -> TaskView:
        begun.set()
        assert go_on.wait(10)
        return TaskView("two", TaskState.UNKNOWN)

    page: Any = Page(cast("Inspector", SimpleNamespace(why=hang, semaphores=list)))
    first = Thread(target=lambda: page({"QUERY_STRING": "task=two"}, lambda *_: None))
    first.start()
    assert begun.wait(10)
    page({}, lambda status, _: said.append(status))
    go_on.set()
    first.join(10)
    page({}, lambda status, _: said.append(status))
    assert said == ["503 Service Unavailable", "200 OK"]


def test_once_shows_no_page(site: Site, semaphore: Command) -> None:
    said = semaphore("metrics", "--once", "--page")
    assert said.code == 0
    assert "Page at" not in said.err
