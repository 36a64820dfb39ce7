"""The code of a pool process, which acquires the permit, runs the body and releases the permit."""
