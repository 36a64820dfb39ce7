"""Find the resources that are in use."""

from __future__ import annotations

from collections.abc import Iterator

from .answers import texts
from .runner import Runner

PAGE = 1000  # names in one call


class Index:
    """The names of all resources in use."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def names(self) -> Iterator[str]:
        """Yield the names in order, page by page."""
        last = ""
        while True:
            ((found,),) = self._runner.call("resources", last, PAGE)
            names = texts(found)
            yield from names
            if len(names) < PAGE:
                return
            last = names[-1]
