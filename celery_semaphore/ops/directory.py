"""List the known semaphores, and find the resource that an operator means by a name as it is shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from ..core.key import names_of, resource_name, semaphore_of
from ..core.limit import limits_of_tasks
from ..core.spelling import nearest
from ..core.store import Store
from ..errors import SemaphoreError, UnknownSemaphore

# Matches the resource of a name that was typed as a long name is shown: its "~" is encoded, unlike a long name's own.
_MAY_BE_SHOWN = re.compile("%7E[0-9a-f]{64}$")


class Directory:
    """Finds what is in use, limited by an operator, or declared by a task of the app, by names in the store."""

    def __init__(self, store: Store, declared: Mapping[str, int | None]) -> None:
        self._store = store
        self._declared = declared

    def semaphores(self) -> set[str]:
        return set(map(semaphore_of, self._resources()))

    def check(self, resource: str) -> None:
        """Raise ``UnknownSemaphore`` for a name that is likely to be misspelt."""
        check_text("resource", resource, "find() returns it")
        whole = semaphore_of(resource)
        if any(semaphore_of(name) == whole for name in self._resources()):  # mostly the first names
            return
        semaphore, names = names_of(resource)[0], {names_of(name)[0] for name in self.semaphores()}
        meant = nearest(semaphore, names, alike=0.5)
        hint = f"did you mean {meant!r}?" if meant else f"known semaphores: {_listed(names)}."
        msg = f"no semaphore {semaphore!r} is in use, limited, or declared by a task of this app; {hint}"
        raise UnknownSemaphore(msg)

    def find(self, semaphore: str, key: str | None) -> str:
        """Return the resource of these names. A long name may be given as it is shown, while it is known."""
        check_text("semaphore", semaphore, "it is the name of one")
        if key is not None:
            check_text("key", key, "a task's template makes it")
        whole = _meant(resource_name(semaphore, None), self.semaphores)
        return whole if key is None else _meant(whole + resource_name("", key), self._resources)

    def search(self, text: str) -> list[str]:
        """Return the names in the store with this text in the semaphore or the key, in any case.

        A very long semaphore or key is found by the whole of it, too: the store has a part of it and a digest.
        """
        wanted, known = text.casefold(), set(self._resources())
        whole, at_key = resource_name(text, None), resource_name("", text)
        return sorted(
            name
            for name in known | set(map(semaphore_of, known))
            if any(wanted in part.casefold() for part in names_of(name) if part)
            or semaphore_of(name) == whole
            or name.endswith(at_key)
        )

    def nearest_key(self, resource: str) -> str | None:
        """Return the key that was probably meant by this one, which is not in use; None if none is alike."""
        semaphore, key = semaphore_of(resource), names_of(resource)[1] or ""
        others = (name for name in self._resources() if name.startswith(f"{semaphore}/"))
        return nearest(
            key, {names_of(name)[1] or "" for name in others if name != resource}, alike=0.5
        )

    def _resources(self) -> Iterator[str]:
        return chain(self._declared, self._store.resources(), self._store.decisions())


def declared_by(tasks: Iterable[Any]) -> dict[str, int | None]:
    """Return the semaphores that these tasks declare, with their limits; None for a limit that each call decides."""
    return {
        limit.semaphore: limit.limit if isinstance(limit.limit, int) else None
        for limit in limits_of_tasks(tasks)
    }


def keyed_by(tasks: Iterable[Any]) -> frozenset[str]:
    """Return the semaphores that these tasks use with a key."""
    return frozenset(limit.semaphore for limit in limits_of_tasks(tasks) if limit.key is not None)


def check_text(name: str, value: object, why: str) -> None:
    """Raise for a value of another type: annotations do not bind a user."""
    if not isinstance(value, str):
        msg = f"{name}={value!r} must be a string: {why}."
        raise SemaphoreError(msg)


def describe(resource: str) -> str:
    semaphore, key = names_of(resource)
    return f"semaphore {semaphore!r}" + ("" if key is None else f" at key {key!r}")


def _meant(named: str, known: Callable[[], Iterable[str]]) -> str:
    if not _MAY_BE_SHOWN.search(named):
        return named
    meant = {name for name in known() if names_of(name) == names_of(named)}
    if len(meant) > 1:
        msg = f"{describe(named)}: several are shown like this; give the whole name."
        raise SemaphoreError(msg)
    if not meant:
        msg = f"{describe(named)}: it is not in use now, so it must be given in full."
        raise SemaphoreError(msg)
    return meant.pop()


def _listed(known: Collection[str], most: int = 10) -> str:
    names = ", ".join(repr(name) for name in sorted(known)[:most])
    return f"{names} …" if len(known) > most else names or "none"
