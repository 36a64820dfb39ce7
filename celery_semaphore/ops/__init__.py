"""Who looks after it: what is held, who waits, and what an operator can do about it."""
