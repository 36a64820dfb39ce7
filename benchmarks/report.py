"""Report figures as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .figure import Figure


def show(name: str, figures: Sequence[Figure]) -> None:
    console = Console(highlight=False)
    table = Table(title=name, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("figure")
    for column in ("value", "bound", "lowest and highest"):
        table.add_column(column, justify="right", no_wrap=True)
    for figure in figures:
        table.add_row(figure.name, _value(figure), _bound(figure), _spread(figure))
        if figure.detail:
            table.add_row(Text("  " + _detail(figure), style="dim"))
    console.print(table)


def save(path: Path, found: dict[str, list[Figure]]) -> None:
    figures = {
        name: [asdict(figure) | {"good": figure.good} for figure in group]
        for name, group in found.items()
    }
    machine = {
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
    }
    path.write_text(json.dumps({"machine": machine, "figures": figures}, indent=2) + "\n")


def _value(figure: Figure) -> Text:
    style = {True: "green", False: "bold red", None: ""}[figure.good]
    return Text(f"{figure.value:.2f} {figure.unit}", style=style)


def _bound(figure: Figure) -> str:
    if figure.bound is None:
        return ""
    return f"{'>=' if figure.at_least else '<='} {figure.bound:g}"


def _spread(figure: Figure) -> str:
    return f"{figure.spread[0]:.2f} .. {figure.spread[1]:.2f}" if figure.spread else ""


def _detail(figure: Figure) -> str:
    return ", ".join(f"{name} {value}" for name, value in figure.detail.items())
