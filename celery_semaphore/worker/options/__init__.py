"""The options of a limited task, and the checks of what a user wrote."""
