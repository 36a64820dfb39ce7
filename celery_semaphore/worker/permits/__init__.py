"""The permits of a worker's processes, and the release of those that their processes cannot release."""
