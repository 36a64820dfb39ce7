"""TaskPermit: the permit as a running task sees it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ...core.permit import Permit, Renewal
from ...core.store import Store
from ...errors import PermitLost, StoreUnavailable
from ...task.protocols import TaskContext
from ...task.request_permit import PERMIT


class TaskPermit:
    """The ``self.permit`` of a running limited task.

    An eager run may also be covered by permits of its outer runs; its own permit comes first, if it has one.
    ``token`` is a fencing token. It grows with every admission, so a resource that remembers the highest token it has
    seen can refuse an older holder. It protects fully at limit 1 only.
    """

    def __init__(self, permits: Sequence[Permit], store: Store) -> None:
        self.permits = tuple(permits)
        self.store = store
        self._permit = self.permits[0]
        # Monotonic time of the first check without an answer, by holder.
        self._unanswered: dict[str, float] = {}

    @property
    def token(self) -> int:
        """The fencing token."""
        return self._permit.token

    @property
    def holder(self) -> str:
        """The holder of the permit: the task's id and a nonce of this delivery."""
        return self._permit.holder

    def check(self) -> None:
        """Raise ``PermitLost`` unless the store confirms this permit, and those that cover an eager run.

        A store that does not answer proves nothing, since the main process may still renew. A permit counts as lost
        only after checks had no answer for a whole lease.
        """
        renewals: Mapping[str, Renewal] = {}
        outage = None
        try:
            renewals = self.store.renew(self.permits)
        except StoreUnavailable as error:
            outage = error
        if lost := [name for name, renewal in renewals.items() if renewal is Renewal.LOST]:
            msg = f"{', '.join(lost)}: the lease ended, another holder may have the permit now"
            raise PermitLost(msg)
        self._check_answers(renewals, outage)

    def _check_answers(
        self, renewals: Mapping[str, Renewal], outage: StoreUnavailable | None
    ) -> None:
        """Raise ``PermitLost`` for a permit that had no answer for a lease; each permit counts by itself."""
        now, before = time.monotonic(), self._unanswered
        silent = [permit.holder for permit in self.permits if permit.holder not in renewals]
        self._unanswered = {holder: before.get(holder, now) for holder in silent}
        for holder, since in self._unanswered.items():
            if now - since > self.store.lease:
                msg = f"{holder}: the store has not confirmed the permit for {now - since:.0f} s"
                raise PermitLost(msg) from outage


def permit_of(request: TaskContext) -> TaskPermit | None:
    """Return the permit of a running task's request; None before it has one.

    The type is checked, because any header of a message becomes an attribute of its request.
    """
    permit = request.__dict__.get(PERMIT)
    return permit if isinstance(permit, TaskPermit) else None
