"""What users write, with all options; `make lint` checks it with mypy --strict and pyright, and nothing runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, assert_type

from celery import Celery, Task, shared_task

from celery_semaphore import (
    AsyncSemaphore,
    Limit,
    LimitedTask,
    LimitedTaskMixin,
    PermitLost,
    Semaphore,
    SemaphoreError,
    SemaphoreSaturated,
    SemaphoreTimeout,
    permit_lost,
)
from celery_semaphore.core.permit import Permit
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing import Clock, MemoryStore, local_store, unlimited

app = Celery("shop")


@app.task(base=LimitedTask, semaphore="api", limit=5)
def call_api(order_id: int) -> str:
    return str(order_id)


@app.task(
    base=LimitedTask,
    bind=True,
    semaphore="export",
    key="{tenant_id}",
    limit=lambda tenant_id: 2,
    weight=2,
    on_saturated="park",
    on_lost="terminate",
    wait_timeout=3600,
    requeue_delay=1,
    requeue_max_delay=60.0,
)
def export(self: LimitedTask, tenant_id: int) -> None:
    if self.permit is not None:
        self.permit.check()


@shared_task(base=LimitedTask, semaphore=[Limit("api", 5), Limit("tenant", 2, key="{tenant_id}")])
def both(tenant_id: int) -> None: ...


class OwnTask(LimitedTaskMixin, Task):  # type: ignore[type-arg, misc, unused-ignore]  # pyright: ignore[reportMissingTypeArgument]
    semaphore = "own"
    limit = 1


def send() -> None:
    call_api.delay(1)
    call_api.apply_async(args=(1,), semaphore_key="a", semaphore_weight=2)
    export.delay(tenant_id=1)
    both.delay(tenant_id=1)


semaphore = Semaphore("api", 5, url="redis://localhost/1", key="a", weight=2, timeout=10)


def with_permit() -> None:
    with semaphore as permit:
        assert_type(permit, Permit)
        semaphore.extend(permit)


def with_block() -> None:
    with semaphore.permit(timeout=5) as permit:
        assert_type(permit, Permit)


async_semaphore = AsyncSemaphore("api", 5, url="redis://localhost/1", timeout=10, on_lost="cancel")


@async_semaphore
async def limited(order_id: int) -> str:
    return str(order_id)


@AsyncSemaphore("api", 5, url="redis://localhost/1", on_lost=lambda permit: permit.token)
async def lines() -> AsyncIterator[str]:
    yield "a"


async def in_a_loop() -> None:
    async with async_semaphore as permit:
        assert_type(permit, Permit)
        await async_semaphore.extend(permit)
    async with async_semaphore.permit(timeout=5) as permit:
        assert_type(await limited(7), str)
    permit = await async_semaphore.acquire(timeout=0)
    await async_semaphore.release(permit)
    assert_type(await async_semaphore.available(), int)
    async for line in lines():
        assert_type(line, str)


def by_hand() -> None:
    try:
        permit = semaphore.acquire(timeout=0)
    except SemaphoreTimeout:
        return
    semaphore.release(permit)


@semaphore
def decorated(order_id: int) -> str:
    return str(order_id)


assert_type(decorated(1), str)


def catches() -> None:
    try:
        send()
    except (SemaphoreSaturated, PermitLost, SemaphoreError) as error:
        assert_type(str(error), str)


@permit_lost.connect(sender=export)
def on_lost(permit: Permit, **more: Any) -> None: ...


def in_tests() -> None:
    clock = Clock()
    store = MemoryStore(StoreOptions(now=clock))
    Semaphore("api", 5, store=store)
    Semaphore("api", 5, app=app)
    with unlimited(app), local_store(app):
        call_api.delay(1)
