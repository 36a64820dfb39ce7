"""Clients in other languages, and what they are given of the Python store: scripts, constants and examples of words."""
