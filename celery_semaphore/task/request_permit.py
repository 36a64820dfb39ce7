"""Name the attribute in which the request of a running task has its permit."""

from __future__ import annotations

PERMIT = "semaphore_permit"
