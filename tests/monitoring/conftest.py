"""Workers on a site, as the tests of workers have them."""

from tests.worker.conftest import site

__all__ = ["site"]
