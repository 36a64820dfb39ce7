"""PendingRelease: the release that is due when a task ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.claim import Claim
from ...core.message_id import MessageId


@dataclass(slots=True)
class PendingRelease:
    """The release that is due when the task ends; recorded before the acquire, since its answer may be lost."""

    holder: str
    claims: Sequence[Claim]
    message_id: MessageId | None = None
    begun: bool = False
