"""The client's own tests, and the types that its users see."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.node import FOLDER
from tests.support.process import ROOT
from tests.support.servers import ValkeyServer

pytestmark = pytest.mark.timeout(400)  # the first one installs


HOWTO = "docs/howto/node.md"
# What the examples call and answer, without a service that there is not.
SERVICE = "const ask = fetch; globalThis.fetch = async () => new Response('an answer');\n"
REQUEST = """
const { once } = await import("node:events");
if (!server.listening) await once(server, "listening");
const said = await ask(`http://localhost:${server.address().port}/`);
console.log(said.status, await said.text());
process.kill(process.pid, "SIGTERM");
"""


def run(*command: str, cwd: Path = FOLDER) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


def test_its_own_tests_pass(node: None) -> None:
    files = [str(path.relative_to(FOLDER)) for path in sorted(FOLDER.glob("test/*.test.js"))]
    said = run("node", "--test", "--test-reporter=tap", *files)
    passed = re.search(r"^# pass (\d+)$", said, re.MULTILINE)
    assert passed, said[-2000:]
    assert int(passed[1]) > 70


def test_its_types(node: None) -> None:
    """Those of its source, and of a program that uses each name, and misuses some."""
    run("node", "node_modules/typescript/bin/tsc", "--project", "tsconfig.json")


def examples(page: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return re.findall(r"^```js\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [HOWTO, "clients/node/README.md"])
def test_the_examples_run(node: None, valkey: ValkeyServer, page: str) -> None:
    for text in examples(page):
        here = SERVICE + text.replace("redis://localhost:6379/0", valkey.url)
        is_server = "listen(8000)" in here
        code = here.replace("listen(8000)", "listen(0)") + REQUEST * is_server
        said = run("node", "--input-type=module", "--eval", code)
        assert not is_server or said == "200 an answer\n"
    with valkey.client() as client:
        assert client.hget("{celery-semaphore}:api:ledger", "limit"), "it was limited"
        assert not client.exists("{celery-semaphore}:api:holders"), "nothing is left"


def test_it_is_installed_as_the_page_says(node: None, tmp_path: Path) -> None:
    """From a clone that lies elsewhere, without packages of its own."""
    command = re.search(r"^\$ (npm install .*)$", (ROOT / HOWTO).read_text("utf-8"), re.MULTILINE)
    assert command
    clone = tmp_path / "celery_semaphore" / "clients" / "node"
    shutil.copytree(FOLDER, clone, ignore=shutil.ignore_patterns("node_modules", "types"))
    app = tmp_path / "app"
    app.mkdir()
    words = shlex.split(command[1].replace("./", "../"))
    run(*words, "--prefer-offline", "--no-audit", "--no-fund", cwd=app)
    code = 'console.log((await import("celery-semaphore")).Semaphore.name)'
    assert run("node", "--input-type=module", "--eval", code, cwd=app) == "Semaphore\n"
