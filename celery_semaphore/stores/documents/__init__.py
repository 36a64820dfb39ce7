"""Keep permits in documents: a call runs on the engine, and what it changed is saved by compare-and-swap."""
