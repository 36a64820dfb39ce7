"""The names of a store's keys. All of one prefix are in one hash slot of a Redis Cluster."""

from __future__ import annotations

from ...errors import ConfigurationError


class Keys:
    """Name the keys of one prefix.

    They are ``{prefix}:<common>``, ``{prefix}:<resource>:<part>`` and ``{prefix}:<resource>:of:<task>``. A
    resource's name is percent-encoded and has no ``:``, so no key can be taken for another.

    A call may touch several resources beside the common keys, and a script may touch keys of one hash slot only.
    The server takes the slot from what is within the first braces: so these are around the whole prefix, and
    there are none in it.
    """

    def __init__(self, prefix: str) -> None:
        if not prefix or "{" in prefix or "}" in prefix:
            msg = (
                f"semaphore_prefix={prefix!r} must have at least one character, and none of {{ and }}: each key"
                " begins with the prefix in braces, which keep them all in one hash slot of a Redis Cluster."
            )
            raise ConfigurationError(msg)
        self._start = f"{{{prefix}}}:"

    def common(self, name: str) -> str:
        """Return the key of what is kept once for the whole prefix."""
        return self._start + name

    def part(self, resource: str, part: str) -> str:
        """Return the key of one part of what is kept of a resource."""
        return f"{self._start}{resource}:{part}"

    def messages(self, resource: str, task: str) -> str:
        """Return the key of what is remembered of a task's messages."""
        return f"{self._start}{resource}:of:{task}"
