"""What a pool process does: it acquires the permit, runs the body and releases the permit."""
