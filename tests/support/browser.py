"""A real browser: Debian's Chromium, without a screen."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, sync_playwright

QUIET = [  # it must not look for its maker's hosts
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def binary() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


def why_missing() -> str | None:
    if binary():
        return None
    return "no chromium in PATH: apt-get install chromium"


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        options: dict[str, Any] = {"executable_path": binary(), "args": QUIET}
        browser = playwright.chromium.launch(**options)
        yield browser
        browser.close()
