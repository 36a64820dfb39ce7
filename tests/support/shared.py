"""One server for all processes of a test run: who needs it first starts it, and stops it last of all."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO

from .process import wait_until

RETIRED_TIMEOUT_S = 100.0  # seconds that the others may still need it


@contextmanager
def shared(
    directory: Path, name: str, start: Callable[[], AbstractContextManager[str]]
) -> Iterator[str]:
    """What ``start`` told of the server (say, its address), in whichever process that was.

    Each user holds a lock of the kind that many can hold, which goes with its process, however it ends.
    """
    address = directory / f"{name}.address"
    with ExitStack() as stack:
        election = stack.enter_context((directory / f"{name}.election").open("w"))
        users = stack.enter_context((directory / f"{name}.users").open("w"))
        with _locked(election):
            if starts := not address.exists():
                address.write_text(stack.enter_context(start()), "utf-8")
            fcntl.flock(users, fcntl.LOCK_SH)
            told = address.read_text("utf-8")
        yield told
        if starts:
            wait_until(
                lambda: _retired(election, users, address),
                RETIRED_TIMEOUT_S,
                f"nobody uses {name} any more",
            )


def _retired(election: IO[str], users: IO[str], address: Path) -> bool:
    """Whether nobody uses the server; who comes after this starts another."""
    with _locked(election):
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        address.unlink()
        return True


@contextmanager
def _locked(file: IO[str]) -> Iterator[None]:
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
