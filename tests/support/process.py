"""Processes that the tests start, watch and end."""

import atexit
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal, Protocol, Self, TypeVar

import psutil

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
RUN_DIRECTORY = "TESTS_RUN_DIRECTORY"
OFTEN_S, SELDOM_S = (
    1.0,
    0.05,
)  # who waits for longer looks less often: a look may take two milliseconds


def wait_until(
    predicate: Callable[[], T | Literal[False] | None],
    timeout: float = 10.0,
    what: str = "",
    *,
    interval: float = 0.02,
    log: Callable[[], str] | None = None,
) -> T:
    """Ask until the answer is true, and return it; a timeout shows what was last answered."""
    begun = time.monotonic()
    end = begun + timeout
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() > end:
            tail = f"\n{log()}" if log else ""
            name = what or getattr(predicate, "__name__", "a condition")
            raise TimeoutError(f"waited {timeout:g} s for {name}; last answer: {answer!r}{tail}")
        time.sleep(interval if time.monotonic() < begun + OFTEN_S else max(interval, SELDOM_S))


def run_directory() -> Path:
    """Where one process of a run of the tests makes what all of them use; the first one that asks removes it."""
    if RUN_DIRECTORY not in os.environ:
        made = tempfile.mkdtemp(prefix="tests-")
        Path(made).chmod(0o755)  # servers that refuse to run as root look into it
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        os.environ[RUN_DIRECTORY] = made  # of all processes that this one starts
    return Path(os.environ[RUN_DIRECTORY])


def free_port() -> int:
    """Return a port that no outgoing connection takes and, on Linux, no other process of the tests."""
    while True:
        reservation = socket.socket()
        try:
            reservation.bind(("127.0.0.1", random.randrange(12_000, 32_000)))
        except OSError:
            reservation.close()
            continue
        port = int(reservation.getsockname()[1])
        if sys.platform == "linux":
            # Its server, which sets this too, may listen. Another process that looks for a port does not set it.
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _reserved.append(reservation)
        else:  # elsewhere no other socket may have the address
            reservation.close()
        return port


_reserved = list[socket.socket]()


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Running(Protocol):
    """What is used of a `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class Process:
    """A program in a process group of its own, its output in a file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.env = dict(env or {})
        self.cwd = cwd
        self._running: Running | None = None
        handle, path = tempfile.mkstemp(prefix=f"{name}-", suffix=".log")
        os.close(handle)
        self.log_file = Path(path)
        _started.add(self)

    def start(self) -> Self:
        with self.log_file.open("ab") as log:
            self._running = self._spawn(log)
        return self

    def _spawn(self, log: IO[bytes], stdin: int = subprocess.DEVNULL) -> Running:
        return subprocess.Popen(
            self.command,
            cwd=self.cwd,
            env=os.environ | self.env,
            stdin=stdin,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        assert self._running, f"{self.name} was not started"
        return self._running.pid

    @property
    def returncode(self) -> int | None:
        return self._running.poll() if self._running else None

    def running(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def log_tail(self, lines: int = 60) -> str:
        return f"--- log of {self.name} ---\n" + "\n".join(self.log().splitlines()[-lines:])

    def wait_until(
        self,
        predicate: Callable[[], T | Literal[False] | None],
        timeout: float = 10.0,
        what: str = "",
    ) -> T:
        """Wait for something that only a living process can bring about."""

        def alive_and_true() -> T | Literal[False] | None:
            if not self.running():
                raise ChildProcessError(
                    f"{self.name} ended with {self.returncode} before {what}\n{self.log_tail()}"
                )
            return predicate()

        return wait_until(alive_and_true, timeout, f"{self.name}: {what}", log=self.log_tail)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float = 10.0) -> int:
        """Wait for its own end, and return the exit code."""
        assert self._running
        try:
            return self._running.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} still runs\n{self.log_tail()}") from None

    def kill(self) -> None:
        """End it with SIGKILL; its children are on their own, as after a real crash."""
        if self.running():
            self.signal(signal.SIGKILL)
            self.wait()

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self, timeout: float = 10.0) -> None:
        """End it politely, then by force, and with it all that is left of its group."""
        if not self._running:
            return
        if self.running():
            with contextlib.suppress(ProcessLookupError):
                self.resume()  # a paused process would not hear the next signal
                self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._running.wait(timeout)
        self.kill_group()

    def kill_group(self) -> None:
        """End it and all its children with SIGKILL, as a lost machine would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        wait_until(lambda: not self.group(), 10, f"the end of all of {self.name}")

    def group(self) -> list[int]:
        """Who of its process group is alive, itself and its orphans among them."""
        alive = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
                if os.getpgid(process.pid) == self.pid and process.status() != "zombie":
                    alive.append(process.pid)
        return alive

    def discard(self) -> None:
        """End all of it at once, for nobody asks any more how it ends, and remove its log."""
        if self._running:
            self.kill_group()
        self.log_file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.discard()


_started: weakref.WeakSet[Process] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Leave no process behind when a fixture could not be torn down."""
    for process in list(_started):
        if process.running():
            process.stop(timeout=2)
