"""Check the format of records in a store and of headers in a message, which is one number."""

from __future__ import annotations

from ..errors import StoreUnavailable

# Raise it when a record, a parked payload or our header changes its meaning for releases that read the old format.
# A release reads its own format and the one before. A store is converted to a newer format only by an operator's
# command, once no older worker is alive. docs/operate/upgrading.md describes the rules until then.
FORMAT = 1


class NewerFormat(StoreUnavailable):
    """A record or header has a format of a later release: this release must leave it alone."""

    def __init__(self, what: str, found: int) -> None:
        super().__init__(
            f"{what} has format {found}, and this release of celery_semaphore reads up to format {FORMAT}:"
            f" upgrade celery_semaphore to a release that reads format {found}"
        )
        self.found = found


def check_format(what: str, found: int) -> None:
    """Raise ``NewerFormat`` for a format that only a later release reads."""
    if found > FORMAT:
        raise NewerFormat(what, found)


def format_warnings(found: int) -> list[str]:
    """Return the warnings about a store's format that a worker logs at its start."""
    try:
        check_format("the store", found)
    except NewerFormat as error:
        return [f"Limited tasks wait: {error}."]
    return []
