"""DeclaredLimit: the limit that processes declared, where no operator set one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeclaredLimit:
    """The smallest limit that was declared lately, and the process that declared it: a worker, or ``<id>@<host>``."""

    limit: int
    by: str
