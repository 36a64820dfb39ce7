"""Hide ``semaphore_url`` where Celery shows its configuration."""

from __future__ import annotations

import re

from celery.app import utils


def hide_url() -> None:
    """Let ``celery report`` and ``celery inspect conf`` hide ``semaphore_url``.

    Celery hides settings with names that match this pattern, and offers no other way. The whole URL is hidden, since
    its query may contain a password. In ``semaphore_transport_options`` Celery hides passwords by itself.
    """
    hidden = getattr(utils, "HIDDEN_SETTINGS", None)
    if hidden is not None and "SEMAPHORE_URL" not in hidden.pattern:
        utils.HIDDEN_SETTINGS = re.compile(f"{hidden.pattern}|SEMAPHORE_URL", hidden.flags)
