"""Test what every store must do; this package needs pytest.

::

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def open_store(self):
            def open_store(*, now, lease, take_up):
                return MyStore(..., now=now, lease=lease, take_up=take_up)

            return open_store

        def forget(self, store):
            ...

        def remember(self, store):
            ...

        def set_format(self, store, number):
            ...

A test first calls ``open_store`` for a store that was never used, with ``now`` as its server's clock; each further call
opens another client of the same server.
``forget`` makes the server lose all its data, like a restart; the store itself stays. ``remember`` returns a
function that makes the server lose all later changes, like a failover to a replica that lags, or a crash before the
last commits reached the disk. If a server can lose everything but never its last moments alone, set
``never_goes_back = "the reason"`` in the class instead: the tests of such losses are then skipped with that reason,
and all others run. ``set_format`` sets the number of the format in the server's record.
"""

from __future__ import annotations

from .attached_grants import AttachedGrants
from .brokers import Brokers
from .callers import Callers
from .calling import Calling
from .changed_tasks import ChangedTasks
from .consumed_queues import ConsumedQueues
from .crowd import Crowd
from .declared_limits import DeclaredLimits
from .ended_waits import EndedWaits
from .formats import Formats
from .gone_callers import GoneCallers
from .handing_on import HandingOn
from .in_transit import InTransit
from .kept_room import KeptRoom
from .kept_room_ends import KeptRoomEnds
from .kept_room_of_calls import KeptRoomOfCalls
from .kept_room_of_several import KeptRoomOfSeveral
from .limits_after_losses import LimitsAfterLosses
from .limits_after_silences import LimitsAfterSilences
from .limits_in_line import LimitsInLine
from .limits_of_all_keys import LimitsOfAllKeys
from .messages import Messages
from .names import Names
from .no_limit import NoLimit
from .nonces import Nonces
from .operators import Operators
from .outbox import Outbox
from .parked_counts import ParkedCounts
from .parking import Parking
from .parts import Acquisition, Losses, SessionWaits
from .pauses import Pauses
from .processes import Processes
from .promoted_waits import PromotedWaits
from .promotions import Promotions
from .set_aside import SetAside
from .totals import ResourceTotals
from .totals_of_outbox import OutboxTotals
from .totals_of_waits import WaitTotals
from .turns_to_keep import TurnsToKeep
from .worker_limits import WorkerLimits

__all__ = ["StoreConformance"]


class StoreConformance(
    Acquisition,
    InTransit,
    SetAside,
    SessionWaits,
    Parking,
    ParkedCounts,
    AttachedGrants,
    Messages,
    HandingOn,
    KeptRoom,
    TurnsToKeep,
    KeptRoomEnds,
    KeptRoomOfCalls,
    KeptRoomOfSeveral,
    ChangedTasks,
    Outbox,
    Brokers,
    EndedWaits,
    Promotions,
    PromotedWaits,
    Nonces,
    Calling,
    GoneCallers,
    Callers,
    Operators,
    DeclaredLimits,
    LimitsInLine,
    LimitsAfterLosses,
    LimitsAfterSilences,
    WorkerLimits,
    LimitsOfAllKeys,
    NoLimit,
    Pauses,
    ResourceTotals,
    WaitTotals,
    OutboxTotals,
    Losses,
    Formats,
    Processes,
    ConsumedQueues,
    Names,
    Crowd,
):
    """Holds all tests of a store."""
