"""Real workers keep a real service under its limit, and one of them is killed.

python -m example_project.demo
"""

import signal
import sys
from types import FrameType

from celery import Celery

from ..programs import Failed, on_stage
from ..service import LIMIT
from .acts import CALLS, Act, play
from .crash import Crash
from .sight import Eyes
from .stage import PROCESSES, Stage
from .table import Board, summary

INTRODUCTION = f"""
A web service serves {LIMIT} callers at once and rejects the sixth.
Two Celery workers of {PROCESSES} processes have {CALLS} tasks that call it.
"""


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    print(INTRODUCTION, flush=True)
    try:
        with on_stage(Stage) as made:
            return perform(made)
    except Failed as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def perform(made: Stage) -> int:
    app = Celery(broker=made.broker)
    eyes = Eyes(made.broker, made.witness)
    acts = [
        Act("1 plain tasks", "plain"),
        Act("2 LimitedTask", "limited"),
        Act("3 a worker dies", "limited"),
    ]
    board = Board(acts)
    acts[-1].crash = Crash(made.workers[-1], eyes, board.tell)
    with board:
        for act in acts:
            board.begin(act)
            play(act, app, eyes, board.show)
    summary(acts, board.console)
    return verdict(acts, board)


def verdict(acts: list[Act], board: Board) -> int:
    faults = [f"{act.title}: {fault}" for act in acts if act.limited for fault in act.faults()]
    for fault in faults:
        board.console.print(fault, style="bold red")
    if not faults:
        board.console.print(
            "Never above the limit, nothing rejected, nothing lost.", style="bold green"
        )
    return 1 if faults else 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
