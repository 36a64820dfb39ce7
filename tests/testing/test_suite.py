"""The conformance suite, as the author of another store runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import ROOT

from .test_plugin import NO_NEIGHBOURS

STORE = """
import pytest
from celery_semaphore.testing import MemoryStore, StoreOptions
from tests.conformance import StoreConformance


class TestMine(StoreConformance):
    {declared}

    @pytest.fixture
    def open_store(self):
        return lambda **options: MemoryStore(StoreOptions(**options))

    def forget(self, store):
        store.forget()
"""


def run(directory: Path, declared: str) -> str:
    (directory / "test_mine.py").write_text(STORE.format(declared=declared), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:valkey"]
    done = subprocess.run(
        [
            *command,
            *NO_NEIGHBOURS,
            "-rfs",
            "--tb=line",
            "-k",
            "it_lost or forget or memory",
            "test_mine.py",
        ],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_store_cannot_leave_out_failovers_in_silence(tmp_path: Path) -> None:
    said = run(tmp_path, "pass")
    assert "implement remember(store), or set never_goes_back to the reason" in said
    assert re.search(r"\n1 failed, [1-9]\d* passed,", said), said


def test_a_store_that_never_goes_back_says_why(tmp_path: Path) -> None:
    said = run(tmp_path, 'never_goes_back = "it lies in one process"')
    assert re.search(r"SKIPPED.*never goes back: it lies in one process", said)
    assert re.search(r"\n[1-9]\d* passed, 1 skipped,", said), said


@pytest.mark.parametrize(
    "remember",
    ["return lambda: None", "return store.forget"],
    ids=["loses nothing", "loses everything"],
)
def test_a_store_that_does_not_go_back_as_it_says_is_found_out(
    tmp_path: Path, remember: str
) -> None:
    said = run(tmp_path, f"def remember(self, store): {remember}")
    assert "test_it_lost_what_came_after_and_nothing_else" in said
