"""Run a web service that serves five callers at once and rejects the sixth with 503.

It is a witness: it counts its callers by itself, and knows nothing of Celery. A caller that hangs up, or dies, no
longer counts.
"""

import argparse
import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

LIMIT = 5
WORK = 0.125  # seconds one call takes, a fifth more or less
REJECTION = 0.03  # seconds until a caller above the limit gets its answer

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


@dataclass
class Count:
    """Holds what the service saw since it last began to count."""

    inside: Counter[str] = field(default_factory=Counter)  # by worker
    most: int = 0
    served: Counter[str] = field(default_factory=Counter)  # by task
    rejected: Counter[str] = field(default_factory=Counter)
    cut_off: Counter[str] = field(default_factory=Counter)

    def enter(self, worker: str) -> int:
        self.inside[worker] += 1
        self.most = max(self.most, self.inside.total())
        return self.inside.total()

    def figures(self) -> dict[str, Any]:
        return {
            "now": self.inside.total(),
            "most": self.most,
            "served": len(self.served),
            "repeated": self.served.total() - len(self.served),
            "rejected": self.rejected.total(),
            "cut_off": self.cut_off.total(),
            "answered": len(self.served.keys() | self.rejected.keys()),
            "inside": dict(self.inside),
        }


class Service:
    def __init__(self, work: float) -> None:
        self.count = Count()
        self.work = work

    async def serve(self, port: int) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", port, backlog=512)
        await server.serve_forever()

    async def _connected(self, reader: Reader, writer: Writer) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            path = request.split(b" ", 2)[1].decode()
            await self._answer(path.strip("/").split("/"), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # hung up
        finally:
            writer.close()

    async def _answer(self, path: list[str], reader: Reader, writer: Writer) -> None:
        match path:
            case ["call", task, worker]:
                await self._call(task, worker, reader, writer)
            case ["count"]:
                await _say(writer, 200, self.count.figures())
            case ["served"]:
                await _say(writer, 200, dict(self.count.served))
            case ["begin"]:
                self.count = Count(inside=self.count.inside)
                await _say(writer, 200, {})
            case _:
                await _say(writer, 404, {})

    async def _call(self, task: str, worker: str, reader: Reader, writer: Writer) -> None:
        count = self.count
        welcome = count.enter(worker) <= LIMIT
        try:
            there = await _stays(
                reader, self.work * random.uniform(0.8, 1.2) if welcome else REJECTION
            )
        finally:
            count.inside[worker] -= 1
        if not there:
            count.cut_off[task] += 1
            return
        (count.served if welcome else count.rejected)[task] += 1
        await _say(writer, 200 if welcome else 503, {})


async def _stays(reader: Reader, seconds: float) -> bool:
    """Return True if the caller stayed; it sends nothing more, so a read only ends when it hangs up."""
    try:
        async with asyncio.timeout(seconds):
            await reader.read(1)
    except TimeoutError:
        return True
    except ConnectionError:
        pass
    return False


async def _say(writer: Writer, status: int, answer: Any) -> None:
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m example_project.service")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--work", type=float, default=WORK)
    given = parser.parse_args()
    asyncio.run(Service(given.work).serve(given.port))
