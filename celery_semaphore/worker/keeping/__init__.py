"""The messages of waiting tasks that a worker keeps unacknowledged, and the session that asks for their grants."""
