"""Routes of FastAPI and async views of Django that hold a permit: all are answered, and nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from httpx import ASGITransport, AsyncClient, Response
from starlette.middleware.base import BaseHTTPMiddleware

from celery_semaphore import AsyncSemaphore, Semaphore, SemaphoreTimeout
from celery_semaphore.core.permit import Permit
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON, occupied, waiting
from tests.support.servers import ValkeyServer
from tests.test_documentation import SERVER, module
from tests.test_imports import run as run_python

from .loops import run_in, soon_nothing_is_left, until

LIMIT = 3


class Site:
    """An app with each form of a limited route, which counts who is inside."""

    def __init__(self, store: MemoryStore) -> None:
        self.api = AsyncSemaphore("api", LIMIT, store=store, timeout=SOON)
        self.now = self.most = 0
        self.app = FastAPI()
        self._add_dependencies()
        self._add_decorated()

    async def inside(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0.002)
        finally:
            self.now -= 1

    def _add_dependencies(self) -> None:
        app, api, inside = self.app, self.api, self.inside

        async def permit() -> AsyncIterator[Permit]:
            async with api.permit() as permit:
                yield permit

        async def by_hand() -> AsyncIterator[Permit]:
            permit = await api.acquire()
            try:
                yield permit
            finally:
                await api.release(permit)

        @app.get("/dependency/{order_id}")
        async def dependency(order_id: int, got: Permit = Depends(permit)) -> Any:  # noqa: B008 - as FastAPI has it
            await inside()
            return {"order": order_id, "token": got.token}

        @app.get("/by-hand/{order_id}", dependencies=[Depends(by_hand)])
        async def hand(order_id: int) -> Any:
            await inside()
            return {"order": order_id}

    def _add_decorated(self) -> None:
        app, api, inside = self.app, self.api, self.inside

        @app.get("/decorated/{order_id}")
        @api
        async def decorated(order_id: int) -> Any:
            await inside()
            return {"order": order_id}

        @api
        async def lines() -> AsyncIterator[str]:
            await inside()
            for n in range(3):
                yield f"{n}\n"
                await asyncio.sleep(0.001)

        @app.get("/stream/{order_id}")
        async def stream(order_id: int) -> StreamingResponse:
            return StreamingResponse(lines())

        @app.get("/raises/{order_id}")
        @api
        async def raises(order_id: int) -> Any:
            await inside()
            raise LookupError

        @app.exception_handler(SemaphoreTimeout)
        async def saturated(_: Request, error: Exception) -> JSONResponse:
            return JSONResponse({}, 503)

    async def get(self, *paths: str) -> list[Response]:
        return await get(self.app, *paths)


async def get(app: FastAPI, *paths: str) -> list[Response]:
    transport = ASGITransport(app=app, raise_app_exceptions=False)
    async with AsyncClient(transport=transport, base_url="http://site", timeout=60) as client:
        return await asyncio.gather(*[client.get(path) for path in paths])


@pytest.fixture
def site(store: MemoryStore) -> Site:
    return Site(store)


FORMS = ["dependency", "by-hand", "decorated", "stream", "raises"]


@pytest.mark.parametrize("middleware", [False, True])
@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_all_forms_at_once(site: Site, store: MemoryStore, kind: str, *, middleware: bool) -> None:
    if middleware:

        async def passes(request: Request, call_next: Any) -> Any:
            return await call_next(request)

        site.app.add_middleware(BaseHTTPMiddleware, dispatch=passes)
    paths = [f"/{form}/{n}" for n in range(12) for form in FORMS]
    answers = run_in(kind)(site.get(*paths))
    codes = {path: answer.status_code for path, answer in zip(paths, answers, strict=True)}
    assert {code for path, code in codes.items() if "raises" not in path} == {200}
    assert {code for path, code in codes.items() if "raises" in path} == {500}
    assert site.most <= LIMIT
    soon_nothing_is_left(store)


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_plain_dependencies_and_generators(store: MemoryStore, kind: str) -> None:
    """Starlette runs each of their steps in a thread, and in a context of its own."""
    api = Semaphore("plain", LIMIT, store=store, timeout=SOON)
    app = FastAPI()

    def permit() -> Iterator[Permit]:
        with api as permit:
            yield permit

    def lines() -> Iterator[str]:
        with api:
            yield from "ab"

    @app.get("/dependency", dependencies=[Depends(permit)])
    def dependency() -> Any:
        return {}

    @app.get("/stream")
    def stream() -> StreamingResponse:
        return StreamingResponse(lines())

    async def main() -> list[Response]:
        transport = ASGITransport(app=app, raise_app_exceptions=False)
        async with AsyncClient(transport=transport, base_url="http://site", timeout=60) as client:
            paths = [f"/{form}" for form in ("dependency", "stream") for _ in range(2 * LIMIT)]
            return await asyncio.gather(*[client.get(path) for path in paths])

    answers = run_in(kind)(main())
    assert [each.text for each in answers] == ["{}"] * 2 * LIMIT + ["ab"] * 2 * LIMIT
    assert api.available() == LIMIT


def test_the_parameters_are_seen(site: Site) -> None:
    (wrong,) = run_in("asyncio")(site.get("/decorated/x"))
    assert wrong.status_code == 422


def test_who_waits_too_long(site: Site, store: MemoryStore) -> None:
    site.api._timeout = 0.01

    async def main() -> list[Response]:
        permits = [await site.api.acquire() for _ in range(LIMIT)]
        answers = await site.get("/dependency/1", "/by-hand/1", "/decorated/1")
        for permit in permits:
            await site.api.release(permit)
        return answers

    assert [each.status_code for each in run_in("asyncio")(main())] == [503] * 3
    soon_nothing_is_left(store)


def scope_of(path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "asgi": {"version": "3.0", "spec_version": "2.3"},
    }


@pytest.mark.parametrize("form", ["dependency", "decorated", "stream"])
@pytest.mark.parametrize("after", range(5))
def test_clients_that_go_away(site: Site, store: MemoryStore, form: str, after: int) -> None:
    """In line, inside, and while the answer is sent: the server cancels, or the next send fails."""
    scope = scope_of(f"/{form}/1")

    async def one(n: int) -> None:
        gone = asyncio.Event()

        async def receive() -> Any:
            if not n:
                await gone.wait()
            await asyncio.sleep(0.001 * n)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if gone.is_set():
                raise OSError

        task = asyncio.ensure_future(site.app(scope, receive, send))
        await asyncio.sleep(0.0005 * after)
        gone.set()
        if n % 2:
            task.cancel()
        await asyncio.wait([task])
        task.cancelled() or task.exception()

    async def main() -> None:
        await asyncio.gather(*[one(n) for n in range(20)])

    run_in("asyncio")(main())
    soon_nothing_is_left(store)
    assert site.most <= LIMIT


def test_a_client_that_goes_away_leaves_the_line(valkey: ValkeyServer) -> None:
    """The dependency of the page, which watches for it: the body does not run."""
    page: dict[str, Any] = {}
    exec(module("clients.py").replace(SERVER, valkey.url), page)  # noqa: S102 - it is our page
    api, sent = page["api"], list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    async def main() -> None:
        gone = asyncio.Event()

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        permits = [await api.acquire() for _ in range(5)]
        request = asyncio.create_task(page["app"](scope_of("/orders/1"), receive, send))
        await until(lambda: waiting(api._store))
        gone.set()
        await asyncio.wait_for(request, 1.0)  # sooner than its acquire would time out
        await until(lambda: not waiting(api._store))
        for permit in permits:
            await api.release(permit)
        (answer,) = await get(page["app"], "/orders/1")
        assert answer.json() == {"order": 1}

    run_in("asyncio")(main())
    assert sent[0]["status"] == 499
    soon_nothing_is_left(api._store)


DJANGO = """
import asyncio, threading
from django.conf import settings
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x", MIDDLEWARE=[])
import django
django.setup()
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import path
from celery_semaphore import AsyncSemaphore

api = AsyncSemaphore("api", 2, url={url!r}, timeout=30)
now, most = [], []

async def view(request):
    async with api:
        now.append(1)
        most.append(len(now))
        await asyncio.sleep(0.005)
        now.pop()
    return HttpResponse("done")

@api
async def fails(request):
    raise LookupError

urlpatterns = [path("view", view), path("fails", fails)]

async def asgi():
    client = AsyncClient(raise_request_exception=False)
    return await asyncio.gather(*[client.get("/view") for _ in range(20)], client.get("/fails"))

codes = [answer.status_code for answer in asyncio.run(asgi())]

def wsgi(path):
    codes.append(Client(raise_request_exception=False).get(path).status_code)

threads = [threading.Thread(target=wsgi, args=("/view",)) for _ in range(20)]
threads.append(threading.Thread(target=wsgi, args=("/fails",)))
for each in threads:
    each.start()
for each in threads:
    each.join()
print(codes.count(200), codes.count(500), max(most))
"""


def test_async_views_of_django(valkey: ValkeyServer) -> None:
    """Under ASGI, and under WSGI, where each call has a loop of its own."""
    pytest.importorskip("django")
    assert run_python(DJANGO.format(url=valkey.url)).split() == ["40", "2", "2"]
    seen = Semaphore("api", 2, url=valkey.url)._seen()
    assert (seen.occupied, seen.waiting) == (0, 0)


def test_nothing_is_left_of_a_route_that_is_cancelled(site: Site, store: MemoryStore) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(site.get(*["/decorated/1"] * 20))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])

    run_in("asyncio")(main())
    soon_nothing_is_left(store)
    assert occupied(store) == 0
