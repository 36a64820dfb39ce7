"""Show the demo's state and results."""

import sys
import time
from collections.abc import Sequence
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..service import LIMIT
from .acts import CALLS, Act

BAR = 12  # characters
PLAIN_EVERY = 2.0  # seconds between lines where there is no terminal


class Board:
    """Shows a live table on a terminal, and plain lines elsewhere."""

    def __init__(self, acts: Sequence[Act]) -> None:
        self.acts = acts
        self.current: Act | None = None
        self.told: list[str] = []
        self.console = Console(highlight=False)
        self._live = (
            Live(console=self.console, auto_refresh=False) if _terminal(self.console) else None
        )
        self._next_line = 0.0

    def tell(self, what: str) -> None:
        seconds = time.time() - self.current.began if self.current else 0.0
        self.told.append(f"{seconds:5.1f} s  {what}")
        if not self._live:
            self.console.print(f"  {self.told[-1]}")

    def begin(self, act: Act) -> None:
        self.current = act
        if not self._live:
            self.console.print(act.title, style="bold")

    def show(self) -> None:
        if self._live:
            self._live.update(self._screen(), refresh=True)
        elif self.current and (time.monotonic() >= self._next_line or self.current.over):
            self._next_line = time.monotonic() + PLAIN_EVERY
            self.console.print(_line(self.current), soft_wrap=True)

    def _screen(self) -> RenderableType:
        lines = [Text(f"  {line}", style="dim") for line in self.told]
        return Group(_table(self.acts), *lines)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()


def _terminal(console: Console) -> bool:
    return console.is_terminal and sys.stdout.isatty()


def _table(acts: Sequence[Act]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column(f"{CALLS} calls", min_width=BAR)
    for name in ("done", "permits", "waiting", "inside", "most", "rejected"):
        table.add_column(name, justify="right", no_wrap=True)
    for act in acts:
        bar = ProgressBar(total=CALLS, completed=act.done, width=BAR, finished_style="green")
        table.add_row(act.title, bar, *_cells(act), style=None if act.began else "dim")
    return table


def _cells(act: Act) -> list[RenderableType]:
    if not act.began:
        return [""] * 6
    sight = act.sight
    bad = sight.most > LIMIT
    return [
        str(act.done),
        _dots(len(sight.holders)) if act.limited else "",
        str(sight.waiting) if act.limited else "",
        str(sight.now),
        Text(str(sight.most), style="bold red" if bad else "bold green"),
        Text(str(sight.rejected), style="bold red" if sight.rejected else "bold green"),
    ]


def _dots(permits: int) -> Text:
    return Text("●" * permits, style="green") + Text("○" * (LIMIT - permits), style="dim")


def _line(act: Act) -> str:
    sight = act.sight
    line = (
        f"  {act.seconds:5.1f} s  done {act.done:3d}  inside {sight.now:2d}  most {sight.most:2d}"
    )
    line += f"  rejected {sight.rejected:3d}"
    if act.limited:
        line += f"  permits {len(sight.holders)}  waiting {sight.waiting:3d}"
    return line


def summary(acts: Sequence[Act], console: Console) -> None:
    """Print the figures of all acts, as the service counted them."""
    table = Table(title="What the service counted", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for name in ("at once", "served", "twice", "rejected", "cut off", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for act in acts:
        sight = act.sight
        figures = (sight.most, sight.served, sight.repeated, sight.rejected, sight.cut_off)
        table.add_row(act.title, *map(str, figures), f"{act.seconds:.1f} s")
    console.print()
    console.print(table)
