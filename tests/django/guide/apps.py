"""The project as an app: it tells how often Django's checks are run."""

from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, register


def tell_run(**_: Any) -> list[CheckMessage]:
    """Write a line for each run of the checks."""
    print("the checks run", flush=True)  # noqa: T201 - a worker's log
    return []


class GuideConfig(AppConfig):
    name = "tests.django.guide"

    def ready(self) -> None:
        register(tell_run)
