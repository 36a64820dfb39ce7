"""python -m example_project.manage"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.shop.settings")
    execute_from_command_line(sys.argv)
