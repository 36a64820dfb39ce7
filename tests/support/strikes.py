"""Raise an error at each step of a call, as a signal handler may."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from dis import opname
from inspect import CO_COROUTINE
from types import FrameType
from typing import Any

from .calling import collected_by_hand


class Interrupted(BaseException):
    """Not even an `Exception`, as `KeyboardInterrupt` and `gevent.Timeout`."""


def struck_at(step: int, call: Callable[[], object], files: Collection[str]) -> bool:
    """Raise at this step of the call in these files, and return whether it had so many.

    A step is where Python may run a signal handler: at the entry of a function, a line, or a return, which is the
    instruction after the call. Of the outermost function it is the caller's. A coroutine may also be where it goes on.
    """
    left = step

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        # What is raised in a generator expression that ends unread is lost.
        if frame.f_code.co_filename not in files or frame.f_code.co_name == "<genexpr>":
            return None
        outermost = frame.f_back is None or frame.f_back.f_code.co_filename not in files
        if frame.f_code.co_flags & CO_COROUTINE:
            frame.f_trace_opcodes = True
            is_step = event == "line" or (event == "opcode" and _goes_on(frame))
        else:
            is_step = event in {"call", "line"} or (event == "return" and not outermost)
        if is_step:
            left -= 1
            if left < 0:
                raise Interrupted
        return trace

    before = sys.gettrace()
    # What the collector closes, such as a generator of the call before, is no step of this one.
    with collected_by_hand():
        sys.settrace(trace)
        try:
            call()
        except Interrupted:
            return True
        finally:
            sys.settrace(before)
    return False


def _goes_on(frame: FrameType) -> bool:
    return opname[frame.f_code.co_code[frame.f_lasti]] == "RESUME"


def strikes(call: Callable[[], object], files: Collection[str]) -> Iterator[int]:
    """Interrupt one call after the other, each a step later, until one comes to its end."""
    step = 0
    while struck_at(step, call, files):
        yield step
        step += 1
    assert step > 20
