"""What users install: the wheel, in an environment of its own. Only `make wheel` and `make soak` run these tests."""
