"""TaskPermit: what a running task sees of its permit."""

from __future__ import annotations

import time

from ..core.permit import Permit, Renewal
from ..core.store import Store
from ..errors import PermitLost, StoreUnavailable


class TaskPermit:
    """``self.permit`` of a limited task that runs.

    ``token`` is a fencing token: it grows with every admission, so that a resource that remembers the
    highest it has seen can refuse an older holder. It protects fully at limit 1 only.
    """

    def __init__(self, permit: Permit, store: Store, since: float) -> None:
        self._permit = permit
        self._store = store
        self._confirmed = since

    @property
    def token(self) -> int:
        """The fencing token."""
        return self._permit.token

    @property
    def holder(self) -> str:
        """Who holds it: the task's id and a nonce of this delivery."""
        return self._permit.holder

    def check(self) -> None:
        """Ask the store whether this permit is still held; raises ``PermitLost`` if not.

        A store that does not answer is believed for one lease since the last answer.
        """
        before = time.monotonic()
        try:
            renewal = self._store.renew([self._permit])[self._permit.holder]
        except StoreUnavailable as error:
            silent = before - self._confirmed
            if silent > self._store.lease:
                msg = f"{self.holder}: the store has not confirmed the permit for {silent:.0f} s"
                raise PermitLost(msg) from error
            return
        if renewal is Renewal.LOST:
            msg = f"{self.holder}: the lease ended, somebody else may hold the permit now"
            raise PermitLost(msg)
        self._confirmed = before
