"""Group the tests that concern one part of a store, so that a part can be tested alone."""

from __future__ import annotations

from .admission import Admission
from .clock_steps import ClockSteps
from .copies import Copies
from .copies_of_waits import CopiesOfWaits
from .epochs import Epochs
from .failovers import Failovers
from .fairness import Fairness
from .granted_by_release import GrantedByRelease
from .late_returns import LateReturns
from .leases import Leases
from .lost_hand_overs import LostHandOvers
from .named_grants import NamedGrants
from .named_waits import NamedWaits
from .new_waits import NewWaits
from .repeated_deliveries import RepeatedDeliveries
from .repeated_losses import RepeatedLosses
from .room import Room
from .session_grants import SessionGrants
from .session_line import SessionLine
from .sessions import Sessions
from .silences import Silences
from .store_lease import StoreLease
from .timeouts import Timeouts
from .waiting import Waiting
from .waits_after_losses import WaitsAfterLosses


class Acquisition(
    Admission,
    Leases,
    Waiting,
    Timeouts,
    Copies,
    CopiesOfWaits,
    RepeatedDeliveries,
    NewWaits,
    Fairness,
):
    """Holds the tests of acquiring and renewing, and of refused waits."""


class SessionWaits(
    Sessions, SessionGrants, GrantedByRelease, SessionLine, Room, NamedWaits, NamedGrants
):
    """Holds the tests of waits that sessions ask for."""


class Losses(
    Epochs,
    StoreLease,
    LateReturns,
    Failovers,
    WaitsAfterLosses,
    LostHandOvers,
    RepeatedLosses,
    ClockSteps,
    Silences,
):
    """Holds the tests of lost data, of clocks that step, and of a store that was not called."""
