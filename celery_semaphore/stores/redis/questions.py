"""Convert messages and waits to the arguments of scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.names import process_name
from ..encoding import DEFAULT_WAIT, microseconds, packed
from .renewals import figures_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.claim import Claim
    from ...core.message_id import MessageId
    from ...core.wait import Wait
    from ..encoding import ResourceClaim
    from .connection import Word


def waiting(wait: Wait | None) -> str:
    """Return how the holder would wait; without a wait the kind is empty."""
    kind, how = (wait.kind, wait) if wait else ("", DEFAULT_WAIT)
    shortest, longest = microseconds(how.shortest), microseconds(how.longest)
    timeout = "" if how.timeout is None else microseconds(how.timeout)
    keeps = microseconds(how.keeps)
    return (
        f"{kind} {how.priority} {shortest} {longest} {how.jitter!r} {timeout} {keeps} {how.session}"
    )


def brought_by(message_id: MessageId | None) -> str:
    """Return how long to keep the record of the task's messages, and which of them it is if not the first."""
    if message_id is None:
        return ""
    remember = microseconds(message_id.remember_for)
    return str(remember) if message_id.is_first else f"{remember} {message_id.number}"


def acquisition(
    claims: Sequence[Claim],
    wanted: list[ResourceClaim],
    holder: str,
    wait: Wait | None,
    message_id: MessageId | None,
) -> list[Word]:
    """Return the arguments of an acquire."""
    ticket = wait.ticket.text if wait and wait.ticket else ""
    words: list[Word] = [holder, ticket, waiting(wait), packed(claims) if wait else ""]
    words += [brought_by(message_id), process_name(), *figures_of(wanted)]
    if message_id is not None and message_id.redelivered:
        words.append(message_id.task_id)
    return words
