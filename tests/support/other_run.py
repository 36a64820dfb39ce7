"""Make the record of a store one of another run of its server, as after a restart or a failover with its data."""

from typing import Any

EPOCH = "{celery-semaphore}:epoch"


def change_run(client: Any, run_id: str) -> None:
    """Name this run wherever the record names one; the callers know the run that they are connected to."""
    before, calm = client.hmget(EPOCH, "run_id", "calm")
    client.hset(EPOCH, "run_id", run_id)
    if before and calm:
        client.hset(EPOCH, "calm", calm.replace(before, run_id.encode()))
