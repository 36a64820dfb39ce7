"""Run Python programs, such as the commands of a project, and wait for their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from .fork_server import Request
from .forked import fork_server, may_fork
from .process import ROOT


def python(
    *arguments: str, env: Mapping[str, str], cwd: Path = ROOT, typed: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | env,
        cwd=cwd,
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def forked(
    module: str,
    *arguments: str,
    env: Mapping[str, str],
    more: Sequence[str] = (),
    typed: str = "",
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """Run a module, as `python -m` does, in a process that forks, if it may, from one which has imported most of it."""
    if not may_fork(env):
        return python("-m", module, *arguments, env=env, typed=typed)
    with ExitStack() as stack:
        given, out, errors = (stack.enter_context(TemporaryFile()) for _ in range(3))
        given.write(typed.encode())
        given.seek(0)
        request = Request(module, arguments, os.environ | env)
        process = fork_server(*more).fork(request, out, errors, given)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            found = f"{_text(out)}{_text(errors)}"
            raise TimeoutError(f"{module} {' '.join(arguments)}: no end\n{found}") from None
        return subprocess.CompletedProcess(arguments, code, _text(out), _text(errors))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
