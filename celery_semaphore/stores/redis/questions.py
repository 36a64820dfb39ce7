"""Convert messages and waits to the arguments of scripts."""

from __future__ import annotations

from ...core.permit import MessageId, Wait
from ..encoding import DEFAULT_WAIT, microseconds


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
