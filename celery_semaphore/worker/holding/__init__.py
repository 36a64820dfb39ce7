"""The messages of waiting tasks that a worker holds unacknowledged, and the session that asks for their grants."""
