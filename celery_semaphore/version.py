"""Version: of this package, as it was installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("celery-semaphore")
except PackageNotFoundError:  # run from its sources
    __version__ = "(not installed)"
