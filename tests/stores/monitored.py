"""A plugin of pytest that chooses tests which reach all that a server runs: see ``tests/conformance/each_command.py``.

It asks a server of Valkey by MONITOR what each test runs, and prints the names of few and quick tests with all of it.
"""

from __future__ import annotations

import re
import socket
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha1
from threading import Thread

import pytest

from celery_semaphore.stores.redis import scripts
from tests.support.servers import ValkeyServer

NAMES = {
    sha1(script.source.encode(), usedforsecurity=False).hexdigest(): name
    for name, script in vars(scripts).items()
    if isinstance(script, scripts.Script)
}
WORDS = """
NX XX GT LT CH INCR EX PX EXAT PXAT KEEPTTL GET WITHSCORES LIMIT BYSCORE BYLEX REV COUNT MATCH STORE AGGREGATE WEIGHTS
BEFORE AFTER -INF +INF - +
"""
OPTIONS = {*WORDS.split()}
LINE = re.compile(r"\+[\d.]+ \[\d+ (\S*)\] (.*)")
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
AT_LEAST_S = 0.04  # that each more test takes
Fact = tuple[object, ...]

_reached = defaultdict[str, set[Fact]](set)
_took = defaultdict[str, float](lambda: AT_LEAST_S)


class Call:
    """One script, and what it does."""

    def __init__(self, script: str | None) -> None:
        self.script = script
        self._commands: list[Fact] = []
        self._homes: list[str] = []
        self.facts = set[Fact]()

    def runs(self, name: str, *words: str) -> None:
        given = {word.upper() for word in words[1:]}
        options = {*(given & OPTIONS), *("(" for word in given if word.startswith("("))}
        self._commands.append((name, *sorted(options)))
        self.facts.add(("command", self.script, *self._commands[-1]))
        if words and words[0].startswith("{"):
            self.facts.add(("key", self.script, name, *self._kind(words[0])))

    def _kind(self, key: str) -> Fact:
        _, first, *parts = key.split(":")
        if not parts:
            return (first,)
        if first not in self._homes:
            self._homes.append(first)
        return (parts[0], "its own" if first == self._homes[0] else "another's")

    def ends(self) -> set[Fact]:
        if not self.script:
            return set()
        if self.script.startswith("SHORT_"):
            self.facts.add(("way", self.script, *self._commands))
        return self.facts


def facts(said: str) -> Iterator[Fact]:
    call = Call(None)
    for line in said.split("\r\n"):
        if not (found := LINE.match(line)):
            continue
        name, *words = WORD.findall(found[2])
        if found[1] == "lua":
            call.runs(name.upper(), *words)
        else:
            yield from call.ends()
            call = Call(NAMES.get(words[0]) if words and name.upper() == "EVALSHA" else None)
    yield from call.ends()


@pytest.fixture(autouse=True)
def _monitored(request: pytest.FixtureRequest, valkey: ValkeyServer) -> Iterator[None]:
    said, name = list[bytes](), request.node.originalname
    with socket.create_connection(("127.0.0.1", valkey.port)) as monitor:
        monitor.sendall(b"MONITOR\r\n")
        reader = Thread(target=lambda: said.extend(iter(lambda: monitor.recv(1 << 20), b"")))
        reader.start()
        before = time.process_time()
        yield
        _took[name] += time.process_time() - before
        with valkey.client() as client:
            client.execute_command(
                "CLIENT", "KILL", "SKIPME", "yes"
            )  # all that it said comes before
        reader.join()
    _reached[name] |= {*facts(b"".join(said).decode("latin1"))}


def chosen() -> list[str]:
    left, names = everything(_reached), list[str]()
    while left:
        names.append(max(_reached, key=lambda name: len(_reached[name] & left) / _took[name]))
        left -= _reached[names[-1]]
    for name in [*names]:
        others = [other for other in names if other != name]
        if _reached[name] <= everything(others):
            names = others
    return sorted(names)


def everything(names: Iterable[str]) -> set[Fact]:
    return set().union(*(_reached[name] for name in names))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name in chosen():
        terminalreporter.write_line(f'    "{name}",')
    kinds = [fact[0] for fact in everything(_reached)]
    terminalreporter.write_line(
        str({kind: kinds.count(kind) for kind in sorted({*map(str, kinds)})})
    )
