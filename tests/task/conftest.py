"""An app for tests of limited tasks, without a worker."""

from __future__ import annotations

import pytest
from celery import Celery


@pytest.fixture
def app() -> Celery:
    """An app without a server, for what a test does in its own process."""
    app = Celery("here", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    return app
