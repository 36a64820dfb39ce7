"""In place of the package click_repl, in workers: only the shell of `celery amqp` uses it.

Celery imports it for each command, with a terminal library: a sixth of what the start of a worker costs.
"""


def register_repl(group: object) -> None:
    """Add no shell to the group of commands."""
