"""The wheel in an empty environment: what it has, what it says of itself, and the README's first example."""

from __future__ import annotations

import re
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.support.process import ROOT, wait_until
from tests.support.rights import as_user
from tests.support.servers import ValkeyServer
from tests.test_documentation import module, write

from .environment import Environment

pytestmark = [pytest.mark.release, pytest.mark.timeout(400)]
SENT = """
from shop import call_api, export
from celery.result import allow_join_result
results = [call_api.delay(n) for n in range(20)] + [export.delay(n % 3) for n in range(9)]
assert [each.get(timeout=40) for each in results] == [None] * 29
print("done")
"""


def test_it_has_each_file_of_the_package(wheel: Path) -> None:
    package = ROOT / "celery_semaphore"
    ours = {
        str(path.relative_to(ROOT))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == ours


def test_its_description_has_no_link_that_leads_nowhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    links = re.findall(r"\]\(([^)]+)\)", str(metadata.get_payload()))
    assert len(links) > 30
    assert {link for link in links if not link.startswith("https://")} == set()
    assert metadata["Name"] == "celery-semaphore"
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+(\+.+)?)?", metadata["Version"])


def test_the_first_example_of_the_readme(
    installed: Environment, tmp_path: Path, valkey: ValkeyServer
) -> None:
    permits = f'app.conf.semaphore_url = "{as_user(valkey)}"\n'  # by the documented rights alone
    write(tmp_path, {"shop.py": module("shop.py") + permits}, valkey)
    worker = installed.worker("first", tmp_path)
    try:
        assert installed.says(SENT, tmp_path) == "done\n"
        with valkey.client() as client:
            assert client.zcard("{celery-semaphore}:processes") == 1
    finally:
        worker.kill_group()
    wait_until(lambda: worker.returncode is not None, 20, "the worker ended")
    assert "Traceback" not in worker.log()
