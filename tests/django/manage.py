"""The project's manage.py; also `python -m tests.django.manage`."""

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.django.settings")

from django.core.management import execute_from_command_line

from tests.django.project import app  # noqa: F401 - as a project's __init__.py does

execute_from_command_line(sys.argv)
