"""Stuck: workers that hung or crashed, and whether that was in this library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from celery_semaphore.worker.main_process.bootstep import COLD_ANSWER_S, COLD_FLUSH_S

from .fleet import END_TIMEOUT_S, Life

FRAME = re.compile(r'File "(\S+)", line (\d+),? in (\w+)')
BEGINS = re.compile(r"our step (?:stops|shuts down) at (\S+)")  # said by the soak's app
STEP_S = COLD_ANSWER_S + COLD_FLUSH_S  # that each part of our step may take in a cold shutdown


def stuck_in_ours(logs: Iterable[tuple[Life, str]]) -> Iterator[str]:
    """Say which workers did not end by themselves because of this library, and where they were."""
    for life, log in logs:
        who = f"{life.worker.hostname} ({life.way})"
        if life.hung:
            where = hangs_in(log)
            if life.way == "TERM" or (is_ours(where) and not was_cut_short(life, log)):
                yield f"{who} hung in {', '.join(where)}"
        if life.crashed and is_ours(where := crashes_in(log)):
            yield f"{who} crashed in {', '.join(where)}"


def was_cut_short(life: Life, log: str) -> bool:
    """Tell whether our step had less time than it may take, for Celery had used up the supervisor's patience."""
    begins = BEGINS.findall(log)
    since = life.cold or life.told  # the supervisor's patience begins with its last word
    if since is None or not begins:
        return False
    return since + END_TIMEOUT_S - float(begins[-1]) < STEP_S


def hung_as(life: Life, log: str) -> str:
    """Say in which way a worker that hung was told to end, and whether it was in a step of ours that had no time."""
    short = is_ours(hangs_in(log)) and was_cut_short(life, log)
    return f"{life.way}, our step cut short" if short else life.way


def hangs_in(log: str) -> list[str]:
    """Return the frames of the main thread, innermost first, by the traceback of faulthandler."""
    return [":".join(frame) for frame in FRAME.findall(log.rpartition("Current thread")[2])]


def crashes_in(log: str) -> list[str]:
    """Return the frames of the error that ended a worker, innermost first."""
    traceback = re.split(r"\n\[", log.partition("Unrecoverable error")[2])[0]
    return [":".join(frame) for frame in FRAME.findall(traceback)][::-1]


def is_ours(frames: list[str]) -> bool:
    """Tell whether a worker hung or crashed in this library; unknown counts as that.

    Celery hangs by itself at a cold shutdown: its handler of SIGQUIT talks to the broker and to the pool on top
    of whatever the event loop did. When that was half of a frame to RabbitMQ, or half of a task to a process, the
    handler waits for ever, or what comes after it does. It also waits for ever for the lock of the event loop that it
    interrupted, when it reads an end of a task with late acks and acknowledges it. And kombu's Redis transport does
    not always survive that the broker ends its connections. So of a worker that hangs in this handler only the handler
    counts, not what it interrupted.
    """
    counts = _without_overrides(_in_handler(frames))
    return not frames or any("/celery_semaphore/" in frame for frame in counts)


def _in_handler(frames: list[str]) -> list[str]:
    """Return the frames on top of what a signal interrupted; all of them, if there was none."""
    ends = [n for n, frame in enumerate(frames) if frame.endswith(":_handle_request")]
    return frames[: ends[0] + 1] if ends else frames


def _may_pass_on(frame: str) -> bool:
    """Tell whether the frame may only call Celery's method of the same name; acknowledge() does it by once.py."""
    names = "worker/main_process/request.py:", "core/once.py:"
    return any(f"/celery_semaphore/{name}" in frame for name in names)


def _without_overrides(frames: list[str]) -> list[str]:
    """Leave out our methods of Celery's request where they call the same one of Celery's: it is Celery's own way."""
    left: list[str] = []
    frames = [
        frame for frame in frames if "/tests/soak/" not in frame
    ]  # which only logs and passes on
    for ours, run in groupby(frames, key=_may_pass_on):
        some = list(run)
        inner = left[-1] if left else ""
        same = inner.endswith(f":{some[-1].rpartition(':')[2]}")
        if not (ours and same and "/celery/worker/request.py:" in inner):
            left += some
    return left
