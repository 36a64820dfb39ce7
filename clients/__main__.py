"""python -m clients: write the files that are made from the Python store anew."""

from __future__ import annotations

import sys
from pathlib import Path

from .scripts import scripts
from .vectors import vectors

NODE = Path(__file__).parent / "node"
FILES = {NODE / "scripts.json": scripts, NODE / "test" / "vectors.json": vectors}


def main() -> int:
    for path, text in FILES.items():
        path.write_text(text(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
