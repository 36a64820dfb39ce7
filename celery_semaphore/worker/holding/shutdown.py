"""Find out whether a shutdown has begun. Celery stores its exit code, where 0 is not False."""

from __future__ import annotations

from celery.worker import state


def ends() -> bool:
    """Return whether any shutdown has begun."""
    return _is_code(state.should_stop) or ends_cold()


def ends_cold() -> bool:
    """Return whether a cold shutdown has begun."""
    return _is_code(state.should_terminate)


def _is_code(told: int | None) -> bool:
    return told is not None and told is not False
