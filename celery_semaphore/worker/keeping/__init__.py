"""What a worker has of waiting tasks: their messages, unacknowledged, the session that asks for their grants, lines."""
