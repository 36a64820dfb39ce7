"""In which order callers of any language came, as their server saw it."""

from __future__ import annotations

import contextlib
import re
import statistics
import threading
from collections.abc import Iterator

from tests.support.servers import RedisServer

OVER = "celery-semaphore-arrivals"
# A holder as programs name it, or the id of a task, with which a holder of its begins.
NAME = re.compile(r"[^\s\"]+/\d+:[0-9a-f]{16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@contextlib.contextmanager
def calls(server: RedisServer) -> Iterator[list[str]]:
    """Note the calls of scripts, with their words, as the server writes them down."""
    found = list[str]()
    with server.client() as listening, listening.monitor() as monitor:

        def listen() -> None:
            for said in monitor.listen():
                command = said["command"]
                if OVER in command:
                    return
                if command.startswith("EVAL") and said["client_type"] != "lua":
                    found.append(command)

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield found
        finally:
            with server.client() as client:
                client.echo(OVER)
            thread.join()


@contextlib.contextmanager
def arrivals(server: RedisServer) -> Iterator[list[str]]:
    """Note who is named in a call of a script, each once, in the order of their first calls."""
    names = list[str]()
    with calls(server) as commands:
        yield names
    names += dict.fromkeys(name for command in commands for name in NAME.findall(command))


def displaced(came: list[str], entered: list[str]) -> float:
    """Return by how many places, in the mean, those who entered were before or after their turns."""
    turns = {name: place for place, name in enumerate(name for name in came if name in {*entered})}
    return statistics.mean(abs(turns[name] - place) for place, name in enumerate(entered))
