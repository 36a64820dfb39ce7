"""Check that the processes of a worker, and the workers of a broker, can share their limits."""

from __future__ import annotations

import logging
from typing import Any

from celery.concurrency.prefork import TaskPool as PreforkPool
from celery.worker import WorkController

from ...errors import ConfigurationError
from ...settings import Settings, is_local

logger = logging.getLogger(__name__)

ANSWER_S = 1.0  # timeout for the answers of other workers


def forks(worker: WorkController) -> bool:
    """Return whether a worker runs its tasks in processes of their own."""
    return issubclass(worker.pool_cls, PreforkPool)


def check_processes(worker: WorkController, settings: Settings) -> None:
    """Raise ``ConfigurationError`` where each of several processes would have the whole limit, or none reports."""
    if is_local(settings.url):
        _check_memory(worker)
    if forks(worker) and getattr(worker, "pool_start_method", "fork") != "fork":
        msg = (
            f"worker_pool_start_method={worker.pool_start_method!r}: the pool's processes must be forked,"
            " to inherit the pipe by which they report their permits."
        )
        raise ConfigurationError(msg)


def _check_memory(worker: WorkController) -> None:
    if forks(worker):
        msg = (
            "semaphore_url='memory://' serves one process only, and this pool has several: each would"
            " have the whole limit. Use redis://..., or --pool=threads."
        )
        raise ConfigurationError(msg)
    if others := _other_workers(worker.app):
        msg = (
            f"semaphore_url='memory://' serves one process only, and {', '.join(others)} of the same broker would have"
            " the whole limit, too. Use redis://... for several workers."
        )
        raise ConfigurationError(msg)


def _other_workers(app: Any) -> list[str]:
    """Return the workers that answer; this one does not yet. A broker in memory has those of this process only."""
    if str(app.conf.broker_read_url or "").startswith("memory:"):
        return []
    try:
        with app.connection_for_write(connect_timeout=ANSWER_S) as connection:
            answers = app.control.ping(timeout=ANSWER_S, connection=connection)
    except Exception as error:  # noqa: BLE001 - whatever the transport raises, the worker itself will report it
        logger.debug("other workers could not be asked: %s", error)
        return []
    return sorted(name for answer in answers or () for name in answer)
