"""Placeholder."""

EACH_DOCUMENT = ("test_any_holder",)
