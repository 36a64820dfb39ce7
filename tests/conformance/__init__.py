"""Test what every store must do.

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

from tests.conformance.parts import (
    AcquireSuite,
    EpochsSuite,
    HandOnSuite,
    LimitsSuite,
    ParkedSuite,
    RenewSuite,
    SessionsSuite,
    TotalsSuite,
    WaitingSuite,
)

__all__ = ["StoreConformance"]


class StoreConformance(
    AcquireSuite,
    LimitsSuite,
    WaitingSuite,
    HandOnSuite,
    RenewSuite,
    SessionsSuite,
    ParkedSuite,
    EpochsSuite,
    TotalsSuite,
):
    """Holds all tests of a store."""
