"""Group the tests as their folders do, so that a part of a store can be tested alone."""

from __future__ import annotations

from tests.conformance.acquire.admission import Admission
from tests.conformance.acquire.changed_tasks import ChangedTasks
from tests.conformance.acquire.copies import Copies
from tests.conformance.acquire.copies_of_waits import CopiesOfWaits
from tests.conformance.acquire.crowd import Crowd
from tests.conformance.acquire.fairness import Fairness
from tests.conformance.acquire.names import Names
from tests.conformance.acquire.new_waits import NewWaits
from tests.conformance.acquire.repeated_deliveries import RepeatedDeliveries
from tests.conformance.acquire.several_calls import SeveralCalls
from tests.conformance.epochs.clock_steps import ClockSteps
from tests.conformance.epochs.epochs import Epochs
from tests.conformance.epochs.failovers import Failovers
from tests.conformance.epochs.formats import Formats
from tests.conformance.epochs.late_returns import LateReturns
from tests.conformance.epochs.lost_hand_overs import LostHandOvers
from tests.conformance.epochs.repeated_losses import RepeatedLosses
from tests.conformance.epochs.silences import Silences
from tests.conformance.epochs.waits_after_losses import WaitsAfterLosses
from tests.conformance.hand_on.granted_by_release import GrantedByRelease
from tests.conformance.hand_on.handing_on import HandingOn
from tests.conformance.hand_on.kept_room import KeptRoom
from tests.conformance.hand_on.kept_room_ends import KeptRoomEnds
from tests.conformance.hand_on.kept_room_of_calls import KeptRoomOfCalls
from tests.conformance.hand_on.kept_room_of_several import KeptRoomOfSeveral
from tests.conformance.hand_on.slowest_claim import SlowestClaim
from tests.conformance.hand_on.turns_to_keep import TurnsToKeep
from tests.conformance.limits.declared_limits import DeclaredLimits
from tests.conformance.limits.limits_after_losses import LimitsAfterLosses
from tests.conformance.limits.limits_after_silences import LimitsAfterSilences
from tests.conformance.limits.limits_in_line import LimitsInLine
from tests.conformance.limits.limits_of_all_keys import LimitsOfAllKeys
from tests.conformance.limits.no_limit import NoLimit
from tests.conformance.limits.operators import Operators
from tests.conformance.limits.pauses import Pauses
from tests.conformance.limits.worker_limits import WorkerLimits
from tests.conformance.parked.attached_grants import AttachedGrants
from tests.conformance.parked.brokers import Brokers
from tests.conformance.parked.consumed_queues import ConsumedQueues
from tests.conformance.parked.ended_waits import EndedWaits
from tests.conformance.parked.many_of_a_broker import ManyOfABroker
from tests.conformance.parked.messages import Messages
from tests.conformance.parked.outbox import Outbox
from tests.conformance.parked.parked_counts import ParkedCounts
from tests.conformance.parked.parking import Parking
from tests.conformance.renew.leases import Leases
from tests.conformance.renew.store_lease import StoreLease
from tests.conformance.sessions.named_grants import NamedGrants
from tests.conformance.sessions.named_waits import NamedWaits
from tests.conformance.sessions.processes import Processes
from tests.conformance.sessions.room import Room
from tests.conformance.sessions.session_grants import SessionGrants
from tests.conformance.sessions.session_line import SessionLine
from tests.conformance.sessions.sessions import Sessions
from tests.conformance.totals.totals import ResourceTotals
from tests.conformance.totals.totals_of_outbox import OutboxTotals
from tests.conformance.totals.totals_of_waits import WaitTotals
from tests.conformance.waiting.callers import Callers
from tests.conformance.waiting.calling import Calling
from tests.conformance.waiting.gone_callers import GoneCallers
from tests.conformance.waiting.in_transit import InTransit
from tests.conformance.waiting.nonces import Nonces
from tests.conformance.waiting.promotions import Promotions
from tests.conformance.waiting.set_aside import SetAside
from tests.conformance.waiting.timeouts import Timeouts
from tests.conformance.waiting.waiting import Waiting
from tests.conformance.waiting.waits_of_tasks import WaitsOfTasks


class AcquireSuite(
    Admission,
    ChangedTasks,
    Copies,
    CopiesOfWaits,
    Crowd,
    Fairness,
    Names,
    NewWaits,
    RepeatedDeliveries,
    SeveralCalls,
):
    """Holds the tests of the folder ``acquire``: what an acquire is answered, and what copies of a message are."""


class LimitsSuite(
    DeclaredLimits,
    LimitsAfterLosses,
    LimitsAfterSilences,
    LimitsInLine,
    LimitsOfAllKeys,
    NoLimit,
    Operators,
    Pauses,
    WorkerLimits,
):
    """Holds the tests of the folder ``limits``: which limit is in force: declared ones, those of operators, pauses."""


class WaitingSuite(
    Callers,
    Calling,
    GoneCallers,
    InTransit,
    Nonces,
    Promotions,
    SetAside,
    Timeouts,
    Waiting,
    WaitsOfTasks,
):
    """Holds the tests of the folder ``waiting``: places in line, timeouts, promotions, and calls that wait."""


class HandOnSuite(
    GrantedByRelease,
    HandingOn,
    KeptRoom,
    KeptRoomEnds,
    KeptRoomOfCalls,
    KeptRoomOfSeveral,
    SlowestClaim,
    TurnsToKeep,
):
    """Holds the tests of the folder ``hand_on``: to whom a free permit goes, and kept room."""


class RenewSuite(Leases, StoreLease):
    """Holds the tests of the folder ``renew``: how long a permit lives, and the lease of the store."""


class SessionsSuite(NamedGrants, NamedWaits, Processes, Room, SessionGrants, SessionLine, Sessions):
    """Holds the tests of the folder ``sessions``: waits and grants of sessions."""


class ParkedSuite(
    AttachedGrants,
    Brokers,
    ConsumedQueues,
    EndedWaits,
    ManyOfABroker,
    Messages,
    Outbox,
    ParkedCounts,
    Parking,
):
    """Holds the tests of the folder ``parked``: messages that wait in the store, and those on their way out."""


class EpochsSuite(
    ClockSteps,
    Epochs,
    Failovers,
    Formats,
    LateReturns,
    LostHandOvers,
    RepeatedLosses,
    Silences,
    WaitsAfterLosses,
):
    """Holds the tests of the folder ``epochs``: lost data, clocks that step, silences, and newer formats."""


class TotalsSuite(ResourceTotals, OutboxTotals, WaitTotals):
    """Holds the tests of the folder ``totals``: counts for metrics."""
