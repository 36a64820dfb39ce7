"""What an hour of warnings may cost."""

from __future__ import annotations

import logging

import pytest

from celery_semaphore.worker.messages.hourly_warnings import MOST_REASONS, HourlyWarnings


def test_it_remembers_the_newest_reasons_only(caplog: pytest.LogCaptureFixture) -> None:
    """A callable may give thousands of weights."""
    warnings = HourlyWarnings(logging.getLogger(__name__))
    for n in range(MOST_REASONS + 1):
        warnings.warn(f"{n}", "text")
    caplog.clear()
    warnings.warn("1", "text")
    assert caplog.messages == []
    warnings.warn("0", "text")
    assert len(caplog.messages) == 1
    warnings.warn("2", "text")
    assert len(caplog.messages) == 1
    warnings.warn("1", "text")
    assert len(caplog.messages) == 2, "it made room for 0"
