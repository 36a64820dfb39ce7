"""Node.js, and what the client in JavaScript needs: its own packages, which npm installs beside it."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess

from .process import ROOT

FOLDER = ROOT / "clients" / "node"
OLDEST = 20
INSTALL_TIMEOUT_S = 250.0
MISSING = f"no Node.js {OLDEST} or later with npm in PATH: apt-get install nodejs npm, or brew install node"


def why_missing() -> str | None:
    """Say how to get it, where it is not there."""
    if not shutil.which("npm") or not (node := shutil.which("node")):
        return MISSING
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)", said)
    return None if found and int(found[1]) >= OLDEST else MISSING


def why_not_installed() -> str | None:
    """Install what the lock names, unless it is there; say why that is not possible."""
    lock = FOLDER / "package-lock.json"
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # several processes run tests
        digest = hashlib.sha256(file.read()).hexdigest()
        stamp = FOLDER / "node_modules" / ".of-lock"
        if stamp.exists() and stamp.read_text() == digest:
            return None
        command = ["npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(
                command,
                cwd=FOLDER,
                capture_output=True,
                text=True,
                timeout=INSTALL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"npm ci in clients/node took {INSTALL_TIMEOUT_S:.0f} s: give npm a registry that answers"
        if done.returncode:
            return f"npm ci in clients/node failed: give npm a registry that answers\n{done.stderr[-500:]}"
        stamp.write_text(digest)
        return None
