"""python -m ops: write the board and the alarms anew, from the catalogue of metrics."""

from __future__ import annotations

import sys
from pathlib import Path

from .alarms import alarms
from .board import board

HERE = Path(__file__).parent
FILES = {
    HERE / "grafana" / "celery_semaphore.json": board,
    HERE / "prometheus" / "alerts.yml": alarms,
}


def main() -> int:
    for path, text in FILES.items():
        path.write_text(text(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
