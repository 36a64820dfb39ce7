"""What the worker's main process does: it receives messages, and sees the end of each task."""
