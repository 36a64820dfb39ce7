"""Debian's Prometheus, and its tool that checks rules and metrics."""

import json
import subprocess
import urllib.parse
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self
from urllib.request import urlopen

from .process import ROOT, Process
from .server import Server

RULES = ROOT / "ops" / "prometheus" / "alerts.yml"
CONFIG = """
global: {{scrape_interval: {interval}, evaluation_interval: {interval}}}
rule_files: [{rules}]
scrape_configs:
  - job_name: celery
    static_configs: [{{targets: {targets}}}]
"""


class PrometheusServer(Server):
    """A Prometheus that scrapes these addresses, and evaluates the alarms."""

    name = command = "prometheus"
    missing = "no Prometheus: apt-get install prometheus"

    def __init__(self, targets: Sequence[str] = (), interval: str = "1s") -> None:
        super().__init__()
        self.targets = targets
        self.interval = interval

    def start(self) -> Self:
        binary = self.binary()
        assert binary, self.why_missing()
        file = self.directory / "prometheus.yml"
        targets = json.dumps(list(self.targets))
        file.write_text(CONFIG.format(interval=self.interval, rules=RULES, targets=targets))
        words = {
            "config.file": file,
            "storage.tsdb.path": self.directory / "data",
            "web.listen-address": f"127.0.0.1:{self.port}",
        }
        command = [str(binary), *(f"--{name}={value}" for name, value in words.items())]
        self.process = Process(f"prometheus-{self.port}", command).start()
        self.process.wait_until(self._is_ready, 20, "it answers")
        return self

    def _is_ready(self) -> bool:
        with suppress(OSError), urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5):
            return True
        return False

    def query(self, text: str) -> list[dict[str, Any]]:
        """Return the samples that a query selects; raise for one that is wrong."""
        asked = urllib.parse.urlencode({"query": text})
        address = f"http://127.0.0.1:{self.port}/api/v1/query?{asked}"
        with urlopen(address, timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    def value(self, text: str) -> float | None:
        """Return the one value that a query selects; None if there is none."""
        found = self.query(text)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None


def promtool(*words: str, stdin: str | None = None) -> str:
    """Run Prometheus's tool below ops/prometheus; return what it said, raise if it found fault."""
    done = subprocess.run(
        ["promtool", *words],
        cwd=RULES.parent,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said
