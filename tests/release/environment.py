"""A wheel as users get it, and an environment that has nothing else but what the wheel asks for."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from importlib.metadata import distributions
from pathlib import Path

from tests.support.process import ROOT, Process

BUILD_S, INSTALL_S = 60, 300  # timeouts in seconds


def run(command: list[str | Path], timeout: float, cwd: Path) -> str:
    """Run a command to its end, and return what it prints."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=env, timeout=timeout, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(source: Path, to: Path) -> Path:
    """Build the wheel from the sdist of this checkout, for what the sdist lacks is in no package of a distributor."""
    hatch: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "-d", to]
    run([*hatch, "-t", "sdist"], BUILD_S, source)
    (sdist,) = to.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(to, filter="data")
    run([*hatch, "-t", "wheel"], BUILD_S, to / sdist.name.removesuffix(".tar.gz"))
    (wheel,) = to.glob("*.whl")
    return wheel


class Environment:
    """A virtual environment with one wheel and its extras, in the versions that the tests run with."""

    def __init__(self, folder: Path, wheel: Path, extras: str) -> None:
        venv.create(folder, with_pip=True)
        self.python = folder / "bin" / "python"
        constraints = folder / "constraints.txt"
        pins = (f"{each.name}=={each.version}" for each in distributions())
        ours = ("celery-semaphore", "celery_semaphore")
        constraints.write_text("\n".join(pin for pin in pins if not pin.startswith(ours)))
        pip: list[str | Path] = [self.python, "-m", "pip", "install", "--quiet"]
        pip += ["--disable-pip-version-check", "-c", constraints, f"{wheel}[{extras}]"]
        run(pip, INSTALL_S, folder)

    def says(self, code: str, cwd: Path) -> str:
        return run([self.python, "-c", code], 60, cwd)

    def worker(self, name: str, cwd: Path, env: dict[str, str] | None = None) -> Process:
        """Start a worker of the module ``shop`` in this folder."""
        command: list[str | Path] = [self.python, "-m", "celery", "-A", "shop", "worker"]
        command += ["--concurrency", "4", "--hostname", f"{name}@localhost", "--loglevel", "INFO"]
        command += ["--without-mingle", "--without-gossip"]
        worker = Process(name, command, env={"PYTHONPATH": str(cwd)} | (env or {}), cwd=cwd)
        worker.start()
        worker.wait_until(lambda: " ready." in worker.log(), 40, "ready")
        return worker


def source_of(reference: str, to: Path) -> Path:
    """Return a folder with the sources of this commit or tag."""
    run(["git", "clone", "--quiet", "--shared", ROOT, to], BUILD_S, ROOT)
    run(["git", "checkout", "--quiet", reference], BUILD_S, to)
    return to
