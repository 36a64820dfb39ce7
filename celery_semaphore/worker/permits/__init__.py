"""Permits of a worker's processes: which exist, and how each is released when its process cannot."""
