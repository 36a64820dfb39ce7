"""An emulator of DynamoDB and SQS, in an environment of its own: it brings another botocore than the tests have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import uuid4

from celery_semaphore.stores.dynamodb import DynamoStore, from_url
from celery_semaphore.stores.options import StoreOptions

from .process import ROOT, Process, listening
from .server import Server

PYTHON = "TESTS_EMULATOR"  # the path of another Python with ministack
REGION = "eu-west-1"
KEYS = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"}


class EmulatorServer(Server):
    """MiniStack, which writes on condition, and in transactions, at one instant each."""

    name = "emulator"
    missing: ClassVar[str] = "no emulator of DynamoDB and SQS: `make emulator` installs it"

    env: ClassVar[dict[str, str]] = {
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "SERVICES": "dynamodb,sqs",
        "LOG_LEVEL": "ERROR",
    }

    @classmethod
    def binary(cls) -> Path | None:
        if PYTHON in os.environ:
            return Path(os.environ[PYTHON])
        found = ROOT / ".venv-emulator/bin/python"
        return found if found.exists() else None

    def start(self) -> Self:
        binary = self.binary()
        assert binary, self.missing
        own = {
            "GATEWAY_PORT": str(self.port),
            "TMPDIR": str(self.directory),
            "STATE_DIR": str(self.directory / "state"),
        }
        self.process = Process(
            self.name, [binary, "-m", "ministack"], env=self.env | own, cwd=self.directory
        )
        self.process.start()
        self.process.wait_until(self._answers, 60, "the emulator answers")
        return self

    def _answers(self) -> bool:
        return listening(self.port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def store(self, table: str = "", *, port: int | None = None, **options: Any) -> DynamoStore:
        """Open a store in a table that need not be there."""
        at = self.url if port is None else f"http://127.0.0.1:{port}"
        given = StoreOptions(transport_options={"endpoint_url": at}, **options)
        return from_url(f"dynamodb://{REGION}/{table or new_name()}", given)

    def new_table(self) -> str:
        """Make an empty table, which nothing deletes from; return its name."""
        name = new_name()
        store = self.store(name, timeout=20.0)
        store.install()
        # It deletes by its own clock, and the clocks of some tests are behind.
        off = {"Enabled": False, "AttributeName": "ttl"}
        store._link.call("update_time_to_live", TimeToLiveSpecification=off)
        store.close()
        return name


def new_name() -> str:
    return f"permits-{uuid4().hex}"
