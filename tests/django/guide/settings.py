"""Settings of a project whose own package is an app of Django's."""

from tests.django import settings
from tests.django.settings import *  # noqa: F403

INSTALLED_APPS = ["tests.django.guide.apps.GuideConfig", *settings.INSTALLED_APPS]
