"""Bars and colours of ``list`` and ``show``, in a real terminal and beside one."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.ops.drawing import bar
from celery_semaphore.ops.views import ResourceView, SemaphoreView
from tests.support.fork_server import Request
from tests.support.forked import fork_server, may_fork
from tests.support.process import ROOT, Running
from tests.worker.conftest import Site

from .conftest import Command

API = Claim("one", None, 2)
VIEW = SemaphoreView("api", "api", (5,), (), keys=0, occupied=0, waiting=0)


def in_terminal(site: Site, *words: str, **env: str) -> str:
    """Return what the command writes to a terminal."""
    ours, its = pty.openpty()
    arguments = ["-A", "tests.worker.app", "semaphore", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm"} | site.env() | env
    process = started(arguments, environment, its)
    os.close(its)
    said = b""
    with suppress(OSError):  # the end of the other side
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    assert process.wait(30) == 0, said
    return said.decode().replace("\r\n", "\n")


def started(arguments: Sequence[str], environment: Mapping[str, str], terminal: int) -> Running:
    # A process that forks starts in a tenth of the time, but only a new Python reads the name of the encoding.
    if may_fork(environment) and "PYTHONIOENCODING" not in environment:
        with os.fdopen(terminal, "wb", closefd=False, buffering=0) as both:
            return fork_server().fork(Request("celery", arguments, environment), both, given=both)
    command = [sys.executable, "-m", "celery", *arguments]
    return subprocess.Popen(
        command, env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    )


def line_of(said: str, name: str) -> str:
    """Return the row of this semaphore; there are others whose names begin with the same word."""
    found = [
        line for line in said.splitlines() if re.search(rf"^(\x1b\[\d+m)?[█░#.]* *{name}  ", line)
    ]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("occupied", "limit", "drawn"),
    [
        (0, 5, "░░░░░░░░░░"),
        (1, 1000, "█░░░░░░░░░"),
        (2, 5, "████░░░░░░"),
        (999, 1000, "█████████░"),
        (5, 5, "██████████"),
        (9, 5, "██████████"),
    ],
)
def test_a_bar_is_full_and_empty_only_when_it_is_true(
    occupied: int, limit: int, drawn: str
) -> None:
    assert bar(replace(VIEW, occupied=occupied, limits=(limit,))) == drawn


@pytest.mark.parametrize(
    "view", [replace(VIEW, limits=(2, 4)), replace(VIEW, limits=()), replace(VIEW, keys=3)]
)
def test_without_a_single_limit_there_is_no_bar(view: SemaphoreView | ResourceView) -> None:
    assert bar(view) == ""


def test_in_a_terminal(site: Site, semaphore: Command) -> None:
    site.lease = 60.0  # nobody renews these permits
    store, wait = site.store(), Wait(Kind.REQUEUE, longest=3600, shortest=3000)
    for holder in ("a:1", "b:1", "c:1"):
        store.acquire([API], holder, wait)
    store.acquire([Claim("tenant", "7", 2)], "d:1")
    store.pause("idle")
    said = in_terminal(site, "list")
    assert line_of(said, "one").startswith("\x1b[33m██████████ one")
    assert "2 (saturated)" in line_of(said, "one")
    assert line_of(said, "idle").startswith("\x1b[31m")
    assert line_of(said, "tenant").startswith(" " * 11 + "tenant")
    assert said.startswith("\x1b[1m" + " " * 11 + "SEMAPHORE")
    assert in_terminal(site, "show", "one").startswith("\x1b[33m██████████ one: 2 of 2 in use")
    of_keys = in_terminal(site, "show", "tenant")
    assert "█████░░░░░ 7" in of_keys
    plain = in_terminal(site, "list", NO_COLOR="1")
    assert line_of(plain, "one").startswith("██████████ one")
    assert "\x1b" not in plain
    old = in_terminal(site, "list", PYTHONIOENCODING="ascii", TERM="xterm")
    assert "##########" in line_of(old, "one")
    for text in (semaphore.says("list"), in_terminal(site, "list", TERM="dumb")):
        assert "\x1b" not in text
        assert line_of(text, "one").startswith("one ")
    store.close()
