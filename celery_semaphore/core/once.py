"""Once: let one of several callers through."""

from __future__ import annotations

from collections.abc import Callable


class Once:
    """Lets the first caller through, and no other one until it is due again.

    Callers may be threads, or a signal handler and the code that it interrupted: so there is no lock, which a handler
    might find taken, but one atomic operation.
    """

    __slots__ = ("_due",)

    def __init__(self, *, due: bool = True) -> None:
        self._due = [True] if due else []

    def take(self) -> bool:
        """Return whether this caller is the one."""
        try:
            return self._due.pop()
        except IndexError:
            return False

    def run(self, call: Callable[[], object]) -> None:
        """Make the call if this caller is the one; after an error the next caller makes it."""
        if not self.take():
            return
        try:
            call()
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        """Let one more caller through."""
        self._due.append(True)
