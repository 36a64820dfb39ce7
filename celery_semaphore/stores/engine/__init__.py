"""Decide what each call of a store does, in plain Python, for every store that has no such language of its own."""
