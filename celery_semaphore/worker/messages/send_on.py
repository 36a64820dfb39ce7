"""SendOn: publish the message of a granted task for another worker, because no process is free here."""

from __future__ import annotations

from .put_back import PutBack


class SendOn(PutBack):
    """Publishes a message into its granted queue, where the first worker with a free process takes it."""

    doing = "sending task {} on"
    urgent = True  # a permit is reserved for the message

    def queue(self) -> str:
        return self.request.comes_back_to()
