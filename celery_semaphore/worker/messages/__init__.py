"""A task message: its headers and route, and how it is published, parked and moved."""
