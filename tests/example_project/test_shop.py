"""`make example`, used as somebody would who looks at it for the first time."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, build_opener
from uuid import uuid4

import psutil
import pytest

from tests.support.process import ROOT, Process, wait_until
from tests.support.variants import also

ACQUIRED = 'celery_semaphore_acquired_total{semaphore="carrier"}'


class Visitor:
    """A browser without a screen or scripts."""

    def __init__(self, log: str) -> None:
        addresses = re.findall(r"http://\S+", log)
        self.shop, self.semaphores, self.carrier, self.metrics = addresses[:4]
        self.prometheus = addresses[4] if len(addresses) > 4 else None
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))

    def get(self, address: str) -> str:
        return str(self._opener.open(address, timeout=30).read().decode())

    def submit(self, page: str, action: str, **fields: str) -> str:
        """Fill in a form of a page, as a browser sends it."""
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.get(page))
        assert found
        data = urlencode({"csrfmiddlewaretoken": found[1], **fields}).encode()
        return str(self._opener.open(action, data, timeout=30).read().decode())

    def count(self) -> dict[str, Any]:
        counted: dict[str, Any] = json.loads(self.get(self.carrier))
        return counted

    def exports(self) -> list[str]:
        return re.findall(r"<td>(waiting|running|done)</td>", self.get(self.shop))


@pytest.fixture(params=["embedded", *also("postgresql")])
def visitor(request: pytest.FixtureRequest) -> Iterator[Visitor]:
    command = [sys.executable, "-m", "example_project.run", "--work", "0.3"]
    if request.param == "postgresql":  # rows and permits in one database
        server = request.getfixturevalue("postgres_server")
        database = server.add_database(f"shop_{uuid4().hex}")
        command += ["--database", database, "--store", "django://default"]
    with Process("example", command, env={"PYTHONPATH": str(ROOT)}) as example:
        try:
            example.wait_until(lambda: "Ctrl-C" in example.log(), 60, "the shop is open")
            yield Visitor(example.log())
        finally:
            example.stop(timeout=60)  # killed, it would leave its own programs behind


@pytest.mark.slow
def test_the_shop_stays_within_its_limits(visitor: Visitor) -> None:
    for _ in range(2):
        visitor.submit(visitor.shop, f"{visitor.shop}order/")
    for _ in range(4):
        visitor.submit(visitor.shop, f"{visitor.shop}export/1/")
    # Two of a tenant's exports run, the others wait, whatever else is to do.
    two_and_two = ["running", "running", "waiting", "waiting"]
    wait_until(lambda: sorted(visitor.exports()) == two_and_two, 20, "two exports run")
    wait_until(lambda: visitor.count()["most"] >= 5, 60, "five calls at once")
    wait_until(lambda: visitor.count()["served"] >= 50, 60, "50 orders are shipped")
    wait_until(lambda: "done" in visitor.exports(), 30, "an export is done")
    seen = visitor.count()
    assert (seen["most"], seen["rejected"]) == (5, 0)
    limit = 'celery_semaphore_limit{semaphore="carrier",set_by="declared"} 5.0'
    wait_until(lambda: limit in visitor.get(visitor.metrics), 20, "the exporter knows the limit")
    if visitor.prometheus is not None:
        acquired = urljoin(visitor.prometheus, f"/api/v1/query?{urlencode({'query': ACQUIRED})}")
        wait_until(lambda: '"value"' in visitor.get(acquired), 30, "Prometheus asked the worker")

    login = f"{visitor.shop}admin/login/"
    visitor.submit(login, login, next="/admin/", username="admin", password="admin")
    page = f"{visitor.semaphores}carrier/"
    answer = visitor.submit(f"{page}change/", f"{page}do/limit/", limit="2")
    assert "Set the limit to 2." in answer
    visitor.submit(visitor.shop, f"{visitor.shop}order/")
    wait_until(lambda: visitor.count()["now"] == 2, 30, "two calls at once")
    visitor.get(visitor.carrier.replace("/count", "/begin"))
    wait_until(lambda: visitor.count()["served"] >= 10, 30, "ten more are shipped")
    assert visitor.count()["most"] == 2


def lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_nothing_is_left_when_its_terminal_is_closed() -> None:
    command = [sys.executable, "-m", "example_project.run"]
    started: list[psutil.Process] = []
    with Process("example", command, env={"PYTHONPATH": str(ROOT)}) as example:
        try:
            example.wait_until(lambda: "Ctrl-C" in example.log(), 60, "the shop is open")
            started = psutil.Process(example.pid).children(recursive=True)
            assert started
            example.signal(signal.SIGHUP)
            assert example.wait(60) == 0
            wait_until(lambda: not any(map(lives, started)), 10, "all its programs have ended")
        finally:
            example.stop(timeout=60)
            for left in filter(lives, started):
                left.kill()
