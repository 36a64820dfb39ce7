"""WorkerMetrics: count what happens in a worker, and expose it.

Only the main process counts: it learns of each end of each task. A pool process that counted by itself would show a
part of the truth, on a port that only one of them can have, and its counts would end with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from celery.worker import state

from ...metrics.catalogue import STORE_ERRORS, WORKER_KEPT_MESSAGES, WORKER_PROCESSES
from ...metrics.figures import Figure
from ...metrics.measured_store import OPERATIONS, is_on
from ...metrics.recorder import Recorder
from ...task.options import Options
from ...task.protocols import BoundTask
from ..celery_internals import pool_size
from ..limiter import Limiter

if TYPE_CHECKING:
    from ...metrics.server import Server

logger = logging.getLogger(__name__)

CLOSE_S = 2.0  # for the end of the thread that counts


class WorkerMetrics:
    """Counts the events of one worker, for Prometheus, for OpenTelemetry, or for both."""

    def __init__(self, limiter: Limiter, tasks: Iterable[BoundTask]) -> None:
        """Raise ``ConfigurationError`` if a package is missing."""
        self._limiter = limiter
        self._tasks = tuple(tasks)
        self._port = limiter.settings.metrics_port
        if self._port:
            from ...metrics import server  # noqa: F401 - it needs a package that may be missing
        self._server: Server | None = None
        self._recorder = self._made()
        self._begin_at_zero()
        limiter.process.announce.subscribe(self._recorder)

    def _made(self) -> Recorder:
        ledger = self._limiter.process.ledger
        try:
            from ...metrics.opentelemetry import has_provider, instruments
        except ImportError:  # it is not there, or too old to be observed
            return Recorder(ledger.name_of)
        try:
            made, is_read = instruments(), has_provider()
        except Exception:  # its API loads whatever provider the environment names
            logger.warning("no metrics for OpenTelemetry: it is not usable here", exc_info=True)
            return Recorder(ledger.name_of, wanted=lambda: bool(self._port))
        wanted = (lambda: True) if self._port or is_read else has_provider
        recorder = Recorder(ledger.name_of, made.record, wanted)
        made.observe(recorder.tally)
        return recorder

    def start(self) -> None:
        """Start to count, and answer Prometheus."""
        self._recorder.start()
        if self._port:
            self._listen()

    def close(self) -> None:
        """Count the last events, and free the port."""
        self._recorder.stop(CLOSE_S)
        if self._server is not None:
            self._server.close()

    def _begin_at_zero(self) -> None:
        with self._recorder.counted() as tally:
            for task in self._tasks:
                options: Options | None = getattr(task, "semaphore_options", None)
                names = [limit.semaphore for limit in options.limits] if options else []
                for figure in self._recorder.figures.zeros(names, task.name):
                    tally.add(*figure)
            for operation in (*sorted(OPERATIONS), "acquire"):
                tally.add(STORE_ERRORS, (operation,), 0.0)

    def _listen(self) -> None:
        from ...metrics.prometheus import CountsCollector, StateCollector
        from ...metrics.server import cause_of, serve

        address = self._limiter.settings.metrics_address
        collectors = (CountsCollector(self._recorder), StateCollector(self._state))
        try:
            self._server = serve(collectors, address, self._port)
        except OSError as error:
            # Its tasks matter more than its metrics.
            logger.warning(
                "no metrics: this worker cannot listen on semaphore_metrics_address=%r semaphore_metrics_port=%d: %s."
                " Each worker of a host needs its own port; 0 means none.",
                address,
                self._port,
                cause_of(error),
            )
        else:
            logger.info("metrics on http://%s:%d/metrics", address, self._server.port)

    def _state(self) -> Iterator[Figure]:
        worker = self._limiter.worker
        size = pool_size(worker.pool)
        busy = min(len(state.active_requests), size)
        kept = worker.kept  # the event loop may set it to None
        yield WORKER_PROCESSES, ("busy",), float(busy)
        yield WORKER_PROCESSES, ("idle",), float(size - busy)
        yield WORKER_KEPT_MESSAGES, (), float(0 if kept is None else len(kept))


def metrics_of(limiter: Limiter, tasks: Iterable[BoundTask]) -> WorkerMetrics | None:
    """Return the metrics of a worker with these tasks; None if they are off."""
    return WorkerMetrics(limiter, tasks) if is_on(limiter.settings) else None
