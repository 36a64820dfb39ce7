"""Name the keys of a store. All keys of one prefix are in one hash slot of a Redis Cluster."""

from __future__ import annotations

from redis.crc import key_slot

from ...core.key import resource_name
from ...errors import ConfigurationError


class Keys:
    """Name the keys of one prefix.

    They are ``{prefix}:<common>``, ``{prefix}:<resource>:<part>``, ``{prefix}:<resource>:of:<task>`` and
    ``{prefix}:<queue>:consumers``. The name of a resource or a queue is percent-encoded and has no ``:``, so all keys
    differ.

    A call may use several resources besides the common keys, but a script may use keys of one hash slot only.
    The server computes the slot from the text within the first braces: so these enclose the whole prefix, which
    must have none.
    """

    def __init__(self, prefix: str) -> None:
        if not prefix or "{" in prefix or "}" in prefix:
            msg = (
                f"semaphore_prefix={prefix!r} must have at least one character, and none of {{ and }}: each key"
                " begins with the prefix in braces, which keep them all in one hash slot of a Redis Cluster."
            )
            raise ConfigurationError(msg)
        self._start = f"{{{prefix}}}:"
        self.slot = key_slot(self._start.encode())

    def common(self, name: str) -> str:
        """Return a key that exists once for the prefix."""
        return self._start + name

    def part(self, resource: str, part: str) -> str:
        """Return the key of one part of a resource."""
        return f"{self._start}{resource}:{part}"

    def messages(self, resource: str, task: str) -> str:
        """Return the key of the record of a task's messages."""
        return f"{self._start}{resource}:of:{task}"

    def consumers(self, queue: str) -> str:
        """Return the key of the workers that consume a queue of the broker."""
        return f"{self._start}{resource_name(queue, None)}:consumers"
