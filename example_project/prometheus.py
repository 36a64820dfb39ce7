"""Start Prometheus beside the shop, where it is installed."""

import json
import shutil
from collections.abc import Sequence

from .programs import HERE, Stage, free_port

CONFIG = """
global: {{scrape_interval: 5s, evaluation_interval: 5s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: shop
    static_configs: [{{targets: {targets}}}]
"""
GRAPH = "graph?g0.expr=celery_semaphore_waiting&g0.tab=0&g0.range_input=5m&g0.stacked=1"


def start(stage: Stage, ports: Sequence[int]) -> str | None:
    """Start a Prometheus that reads these ports, with the alarms; return the address of a graph, or None."""
    program = shutil.which("prometheus")
    if program is None:
        return None
    port, file = free_port(), stage.directory / "prometheus.yml"
    targets = json.dumps([f"127.0.0.1:{each}" for each in ports])
    rules = HERE / "ops" / "prometheus" / "alerts.yml"
    file.write_text(CONFIG.format(rules=rules, targets=targets), "utf-8")
    words = {
        "config.file": file,
        "storage.tsdb.path": stage.directory / "prometheus",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    started = stage.start(
        "prometheus", [program, *(f"--{name}={value}" for name, value in words.items())]
    )
    started.wait_until(lambda: started.listens(port))
    return f"http://127.0.0.1:{port}/{GRAPH}"
