"""A server that several processes share is started once, and stopped when nobody uses it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from .shared import shared


class Starts:
    def __init__(self) -> None:
        self.log: list[str] = []

    @contextmanager
    def __call__(self) -> Iterator[str]:
        self.log.append("started")
        yield f"address {len(self.log)}"
        self.log.append("stopped")


def test_it_is_started_once_and_outlives_its_users(tmp_path: Path) -> None:
    starts, first = Starts(), ExitStack()
    assert first.enter_context(shared(tmp_path, "it", starts)) == "address 1"
    with shared(tmp_path, "it", starts) as told:
        assert told == "address 1"
        leaving = threading.Thread(target=first.close)
        leaving.start()
        leaving.join(0.3)
        assert starts.log == ["started"], "somebody still uses it"
    leaving.join(10)
    assert starts.log == ["started", "stopped"]


def test_who_comes_late_starts_another(tmp_path: Path) -> None:
    starts = Starts()
    for address in ("address 1", "address 3"):
        with shared(tmp_path, "it", starts) as told:
            assert told == address
    assert starts.log == ["started", "stopped"] * 2


def test_a_user_that_was_killed_uses_it_no_more(tmp_path: Path) -> None:
    starts = Starts()
    with shared(tmp_path, "it", starts):
        if (child := os.fork()) == 0:
            with shared(tmp_path, "it", starts):
                os.kill(os.getpid(), 9)
        os.waitpid(child, 0)
    assert starts.log == ["started", "stopped"]


def test_what_could_not_start_is_tried_again(tmp_path: Path) -> None:
    def address() -> str:
        raise OSError("no port is free")

    @contextmanager
    def fails() -> Iterator[str]:
        yield address()

    with pytest.raises(OSError, match="no port"), shared(tmp_path, "it", fails):
        pass
    with shared(tmp_path, "it", Starts()) as told:
        assert told == "address 1"
