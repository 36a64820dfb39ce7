"""Shutdown: whether one has begun. Its exit code may be 0, which is no False."""

from __future__ import annotations

from celery.worker import state


def ends() -> bool:
    """Tell whether any shutdown has begun."""
    return _is_code(state.should_stop) or ends_cold()


def ends_cold() -> bool:
    """Tell whether a cold shutdown has begun."""
    return _is_code(state.should_terminate)


def _is_code(told: int | None) -> bool:
    return told is not None and told is not False
