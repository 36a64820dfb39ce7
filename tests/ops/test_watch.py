"""``celery semaphore list --watch``, which is interrupted by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from celery_semaphore.ops.watch import fitting
from tests.conftest import StartServer
from tests.support.process import ROOT, wait_until
from tests.support.variants import also
from tests.worker.conftest import Site

from .conftest import Command


@pytest.mark.parametrize("words", [["list", "one"], *also(["show", "one", "--timeout", "0"])])
def test_it_prints_again_also_after_an_outage(
    site: Site, start_valkey: StartServer, tmp_path: Path, words: list[str]
) -> None:
    server = start_valkey()
    env = os.environ | {"PYTHONPATH": str(ROOT)} | site.env() | {"STORE": server.url}
    command = [sys.executable, "-m", "celery", "-A", "tests.worker.app", "semaphore", *words]
    with (tmp_path / "out").open("wb") as out, (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen([*command, "--watch"], env=env, stdout=out, stderr=errors)
    said, failed = ((tmp_path / name).read_text for name in ("out", "errors"))
    try:
        wait_until(lambda: said().count("not in force yet") >= 2, 60, "it is printed twice")
        server.pause()
        wait_until(lambda: "Error: The store did not answer" in failed(), 60, "it says so")
        server.resume()
        before = said().count("not in force yet")
        wait_until(lambda: said().count("not in force yet") > before, 60, "it goes on")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in failed()
    assert "Abort" not in failed()


@pytest.mark.parametrize(
    ("columns", "rows", "shown"),
    [
        (20, 5, "a\nb\nc\nd"),
        (20, 4, "a\nb\n… and 2 more lines"),
        (20, 1, "a\n… and 3 more lines"),
        (1, 5, "a\nb\nc\nd"),
    ],
)
def test_a_terminal_shows_the_beginning(columns: int, rows: int, shown: str) -> None:
    assert fitting("a\nb\nc\nd", os.terminal_size((columns, rows))) == shown


def test_a_wide_line_takes_several_rows() -> None:
    wide = click.style("x" * 21, fg="red")
    text = f"{wide}\n{wide}\nc"
    assert fitting(text, os.terminal_size((20, 6))) == text
    assert fitting(text, os.terminal_size((20, 5))) == f"{wide}\n… and 2 more lines"
    assert fitting(text, os.terminal_size((21, 4))) == text


def test_it_is_not_json(semaphore: Command) -> None:
    said = semaphore("list", "--watch", "--json")
    assert said.code == 2
    assert "give --watch or --json, and not both." in said.err
