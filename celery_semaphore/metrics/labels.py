"""Make names safe as values of labels: short, few, and possible to encode."""

from __future__ import annotations

from functools import lru_cache

from ..core.key import names_of, resource_name
from .catalogue import MAX_SEMAPHORES, OTHER

LONGEST_TASK = 128  # characters of the name of a task


@lru_cache(maxsize=1024)
def semaphore_label(semaphore: str) -> str:
    """Return the name of a semaphore as stores show it: a long one as its beginning and digest."""
    return _encodable(names_of(resource_name(semaphore, None))[0])


@lru_cache(maxsize=1024)
def task_label(task: str) -> str:
    """Return the beginning of the name of a task."""
    return _encodable(task[:LONGEST_TASK])


def _encodable(text: str) -> str:
    """Replace what UTF-8 cannot encode: one such character would make the whole answer fail."""
    return text.encode("utf-8", "replace").decode()


class BoundedLabel:
    """Admits the first values of a label, and calls all others ``OTHER``: each value is a series for ever."""

    def __init__(self, most: int = MAX_SEMAPHORES) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """Return the value, or ``OTHER`` if there are too many."""
        if value not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(value)
        return value
