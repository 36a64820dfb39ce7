"""Declare what our mixins use of the classes of Celery beside which they stand; Celery ships no types.

At run time all three names are ``object``. A mixin gets the real class only from the class that puts both together,
and a process that only sends tasks must not import the worker's consumer.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

__all__ = ["CeleryRequest", "CeleryTask", "Consumer"]

if TYPE_CHECKING:
    from billiard.einfo import ExceptionInfo
    from celery import Celery
    from celery.concurrency.base import BasePool
    from celery.events import EventDispatcher
    from celery.worker.consumer import Consumer

    from .protocols import BoundTask, Fields, TaskContext, TaskMessage

    class CeleryRequest:
        """``celery.worker.request.Request``."""

        id: str
        name: str
        message: TaskMessage
        body: bytes | str
        content_type: str | None
        args: Any
        kwargs: Any
        request_dict: Fields
        task: BoundTask
        acknowledged: bool
        worker_pid: int | None
        time_start: float | None
        expires: datetime | None
        stamped_headers: list[str]
        hostname: str
        eventer: EventDispatcher
        connection_errors: tuple[type[Exception], ...]
        utc: bool
        on_ack: Callable[..., object]
        on_reject: Callable[..., object]
        on_success: Callable[..., object]
        _app: Celery
        _apply_result: object
        _already_cancelled: bool
        _already_revoked: bool
        _context: TaskContext
        _decoded: bool
        _delivery_info: Fields
        _eventer: EventDispatcher | None
        _request_dict: Fields

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def acknowledge(self) -> None: ...
        def revoked(self) -> bool: ...
        def reject(self, requeue: bool = False) -> None: ...
        def send_event(self, type: str, **fields: object) -> None: ...  # noqa: A002
        def on_accepted(self, pid: int, time_accepted: float) -> None: ...
        def on_failure(
            self, exc_info: ExceptionInfo, send_failed_event: bool = True, return_ok: bool = False
        ) -> None: ...
        def on_timeout(self, soft: bool, timeout: float) -> None: ...
        def terminate(self, pool: BasePool, signal: str | int | None = None) -> None: ...
        def cancel(
            self, pool: BasePool, signal: str | int | None = None, **options: bool
        ) -> None: ...

    class CeleryTask:
        """``celery.Task``; all is ``Any``, since a user's checker may know the real types."""

        name: Any
        Request: Any
        Strategy: Any
        before_start: Any

        @property
        def app(self) -> Any: ...
        @property
        def request(self) -> Any: ...
        @classmethod
        def bind(cls, app: Any) -> Any: ...
        @classmethod
        def on_bound(cls, app: Any) -> None: ...
        def apply(self, *args: Any, **options: Any) -> Any: ...
        def apply_async(self, *args: Any, **options: Any) -> Any: ...

else:
    CeleryRequest = CeleryTask = Consumer = object
