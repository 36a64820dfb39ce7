"""A forked process is like one that was started the ordinary way, and outlives the process that forked it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.fork_server import PRELOADED, Request
from tests.support.forked import PYTHON, Forked, ForkServer
from tests.support.process import ROOT, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")
Run = Callable[[str], Forked]
SLEEP = "import time; time.sleep(60)"
SIGNALS = [signal.SIGCHLD, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1]
DESCRIBE = """
import json, os, signal, sys, threading
signals = [signal.SIGCHLD, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1]
print(json.dumps({
    "variables": {name: os.environ.get(name) for name in ("GIVEN", "SERVER")},
    "session": os.getsid(0) == os.getpgid(0) == os.getpid(),
    "directory": os.getcwd(),
    "input": sys.stdin.read(),
    "changed signals": [number for number in signals if signal.getsignal(number) != signal.SIG_DFL],
    "threads": threading.active_count(),
    "descriptors": len(os.listdir("/proc/self/fd")) - 1,
    "modules": sorted(sys.modules),
}))
os._exit(0)
"""


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) == signal.SIG_IGN


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(PYTHON | {"SERVER": "its own"}) as server:
        yield server


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def run(server: ForkServer, log: Path) -> Run:
    def run(statement: str) -> Forked:
        request = Request("timeit", ["-n1", "-r1", statement], os.environ | {"GIVEN": "here"})
        with log.open("ab") as file:
            return server.fork(request, file)

    return run


@pytest.mark.parametrize(
    ("statement", "code"),
    [("pass", 0), ("1 / 0", 1), ("import os; os._exit(3)", 3), ("import os; os.abort()", -6)],
)
def test_its_exit_code(run: Run, statement: str, code: int) -> None:
    process = run(statement)
    assert process.wait(10) == process.poll() == code


def test_it_is_a_process_of_its_own(run: Run, log: Path) -> None:
    process = run(DESCRIBE)
    assert process.wait(10) == 0
    found = json.loads(log.read_text())
    modules = set(found.pop("modules"))
    assert found == {
        "variables": {"GIVEN": "here", "SERVER": None},
        "session": True,
        "directory": str(ROOT),
        "input": "",
        "changed signals": [*filter(_is_ignored, SIGNALS)],  # as any process inherits them
        "threads": 1,
        "descriptors": 3,
    }
    assert modules >= {*PRELOADED}
    assert "celery_semaphore.task.limited_task" not in modules, (
        "its base class depends on a variable"
    )


def test_it_is_killed_and_waited_for(run: Run) -> None:
    process = run(SLEEP)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL


def test_the_server_ends_before_it(log: Path) -> None:
    request = Request("timeit", [SLEEP], os.environ)
    with ForkServer(PYTHON) as server, log.open("ab") as file:
        process = server.fork(request, file)
    assert not server.running()
    assert process.poll() is None
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(10) == -signal.SIGTERM


def test_a_server_that_cannot_start_says_why(log: Path) -> None:
    with ForkServer(PYTHON | {"PYTHONPATH": "", "PYTHONHOME": "/nowhere"}) as server:
        request = Request("timeit", ["pass"], os.environ)
        with log.open("ab") as file, pytest.raises(ChildProcessError, match="No module named"):
            server.fork(request, file)


def test_the_server_ends_with_its_requests() -> None:
    with ForkServer(PYTHON) as server:
        server._requests.close()
        assert wait_until(lambda: not server.running(), 10)
        assert server.returncode == 0
