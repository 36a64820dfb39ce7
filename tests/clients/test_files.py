"""What a client is given is what the Python store has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from clients.__main__ import FILES
from clients.scripts import NAMES, script, scripts
from clients.vectors import vectors
from tests.support.process import ROOT


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_files_are_up_to_date(path: Path) -> None:
    assert path.read_text("utf-8") == FILES[path](), "run `python -m clients`, and commit the files"


def test_the_parts_of_a_script_are_its_source() -> None:
    written = json.loads(scripts())
    for name in NAMES:
        parts = written["scripts"][name]["parts"]
        assert "\n".join(written["parts"][part] for part in parts) == script(name).source


def test_each_script_has_its_words() -> None:
    sent = {words[1] for case in json.loads(vectors()) for words in case["words"]}
    assert sent == {*NAMES}


def test_the_page_about_the_protocol_names_them_all() -> None:
    page, written = (ROOT / "docs/reference/protocol.md").read_text("utf-8"), json.loads(scripts())
    for keys in written["keys"].values():
        assert f"`{' '.join(keys)}`" in page
    for name in NAMES:
        assert re.search(rf"^### .*\b{name}\b", page, re.MULTILINE), name
    (example,) = re.findall(r'"constants": (\{.*\}),$', page, re.MULTILINE)
    assert json.loads(example) == written["constants"]
    assert f"binding for format {written['format']}:" in page
