"""A main process whose signal handler runs in the middle of what it enters into its books.

It quits, as SIGQUIT would have it, right after its first permit was entered, where it reads the notes of its
pool's processes. All other processes of the pool have got theirs by then, and note them once it did.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded

from celery_semaphore.worker.permits.ledger import Ledger
from celery_semaphore.worker.permits.note import NotePipe
from celery_semaphore.worker.pool_process import tracer
from tests.support.process import wait_until


def install(path: str, processes: int) -> None:
    """``path`` is made at the first permit, others beside it by each process, and when the signal was sent."""
    first, quitted = Path(path), Path(path + ".quitted")
    main, entered, noted = os.getpid(), Ledger.held, NotePipe.held

    def held(self: Ledger, *args: Any, **kwargs: Any) -> None:
        entered(self, *args, **kwargs)
        in_main = os.getpid() == main and threading.current_thread() is threading.main_thread()
        if in_main and not quitted.exists():
            quitted.touch()
            os.kill(main, signal.SIGQUIT)  # its handler runs here, before this returns

    def held_in_child(self: NotePipe, *args: Any, **kwargs: Any) -> None:
        # A quitting worker receives no more tasks: so each process must have one before.
        Path(f"{path}.of.{os.getpid()}").touch()
        each = f"{first.name}.of.*"
        wait_until(lambda: len([*first.parent.glob(each)]) == processes, 20, "all have permits")
        try:
            os.close(os.open(first, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            wait_until(quitted.exists, 20, "the worker quits")
        noted(self, *args, **kwargs)

    Ledger.held = held  # type: ignore[method-assign]
    NotePipe.held = held_in_child  # type: ignore[method-assign]


def strike_before_the_run() -> None:
    """Let a soft time limit strike between the acquire of the permit and the call of Celery's tracer.

    Its handler raises an error there, which no tracer turns into the end of a task.
    """
    acquired = tracer._refusal

    def struck(*args: Any) -> None:
        assert acquired(*args) is None
        raise SoftTimeLimitExceeded

    tracer._refusal = struck  # type: ignore[assignment]
