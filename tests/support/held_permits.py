"""What Semaphore keeps in this process from its first use on, which the next test must not meet."""

from collections.abc import Iterator
from contextlib import contextmanager

from celery_semaphore import semaphore_base
from celery_semaphore.core.held_permits import by_store


@contextmanager
def forgotten_after() -> Iterator[None]:
    """A store of an earlier test knows its epoch, and a keeper would go on and tell the server."""
    yield
    for held_permits in by_store.values():
        held_permits.close()
    by_store.clear()
    semaphore_base._opened.clear()
