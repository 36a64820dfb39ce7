"""Said: what the workers' logs say of each task."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from .fleet import Life

SAID = re.compile(r"(noted|published|acknowledged) (\S+) at (\S+)(?: for (\d+) s)?")
UNDECODABLE = re.compile(r"\[(\S+ \S+),(\d+): \S+\] Can't decode message body: .*?'id': '([^']+)'")
RECEIVED = re.compile(r"\[(\S+)\] received")


class Noted(NamedTuple):
    """The main process that had noted a task's permit, and so acknowledged it with early acks."""

    life: Life
    at: float


class Published(NamedTuple):
    """A waiting task's message was published, to come after so many seconds."""

    at: float
    delay: int

    def passed_on(self) -> Iterator[float]:
        """Yield when RabbitMQ passes it on: there is a queue for each bit of its delay, the longest is first."""
        left = self.delay
        while left:
            left -= 1 << (left.bit_length() - 1)
            yield self.at + self.delay - left


@dataclass
class Said:
    """What the workers' logs say of one task."""

    noted: Noted | None = None  # the last one
    received: int = 0
    published: list[Published] = field(default_factory=list)  # while it waited, and confirmed
    acknowledged: list[tuple[Life, float]] = field(default_factory=list)
    # The workers whose Celery dropped its message, and when.
    undecodable: list[tuple[Life, float]] = field(default_factory=list)


def said(logs: Iterable[tuple[Life, str]]) -> dict[str, Said]:
    """Read the logs of all workers."""
    found: dict[str, Said] = defaultdict(Said)
    for life, log in logs:
        for what, task, at, delay in SAID.findall(log):
            if what == "noted":
                found[task].noted = Noted(life, float(at))
            elif what == "published":
                found[task].published.append(Published(float(at), int(delay)))
            else:
                found[task].acknowledged.append((life, float(at)))
        for at, milliseconds, task in UNDECODABLE.findall(log):
            dropped = datetime.fromisoformat(f"{at}.{milliseconds}").timestamp()
            found[task].undecodable.append((life, dropped - time.time() + time.monotonic()))
        for task in RECEIVED.findall(log):
            found[task].received += 1
    return found
