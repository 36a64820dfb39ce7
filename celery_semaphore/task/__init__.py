"""The options of a limited task, and the checks of their values."""
