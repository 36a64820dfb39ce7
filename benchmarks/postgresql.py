"""Permits in PostgreSQL, by pgbench, against two single-row updates, each its own transaction.

Once as the server has them, waiting for the disk, and once as permits are written, without.
"""

from __future__ import annotations

import os
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.postgres import EmbeddedPostgresServer

from .figure import Figure, interleaved, ratio

SECONDS = 4  # of one block
ROUNDS = 3
KEYS = 1_000
HALF, CROWD = 500_000, 16  # pairs of half a million, by so many clients
LARGEST = ("permit", "resource", "released")  # tables
# At least so much of the floor: see stores.md.
BOUNDS = {(1, 16): 0.16, (KEYS, 16): 0.45}

_KEY = {1: r"\set k 0", KEYS: rf"\set k random(1, {KEYS})"}
_PAIR = r"""
\set h random(1, 1000000000000)
SELECT * FROM celery_semaphore.v1_acquire(NULL, 30000000, 30000000, NULL, 2000, 'h' || :client_id || '-' || :h, '',
    'requeue', 0, 100000, 300000000, 1.0, NULL, '[]', 't' || :client_id || '-' || :h, NULL, 3600000000,
    ARRAY['api/' || :k], ARRAY[16]::bigint[], ARRAY[1]::bigint[]);
SELECT * FROM celery_semaphore.v1_release(NULL, 30000000, 30000000, NULL, 2000, 'h' || :client_id || '-' || :h,
    't' || :client_id || '-' || :h, NULL, 3600000000, ARRAY['api/' || :k]);
"""
_OWN_ROW = {
    1: r"\set k :client_id + 1",
    KEYS: _KEY[KEYS],
}  # on the hot key too: nobody waits for another's row
_HASTY = "-c synchronous_commit=off"  # as permits are written
_UPDATE = "\nUPDATE floor SET n = n + 1 WHERE id = :k;" * 2


def measure() -> list[Figure]:
    with EmbeddedPostgresServer(fsync="on") as server:
        server.install()
        server.run(
            "CREATE TABLE floor (id int PRIMARY KEY, n int) WITH (fillfactor = 50)",
            f"INSERT INTO floor SELECT id, 0 FROM generate_series(1, {KEYS}) AS id",  # noqa: S608 - a number
        )
        figures = [_against(server, keys, n) for keys in (1, KEYS) for n in (1, 4, 16)]
        return [*figures, _sizes(server)]


def _against(server: EmbeddedPostgresServer, keys: int, clients: int) -> Figure:
    """In pairs a second, so more is better."""
    floor = _OWN_ROW[keys] + _UPDATE
    blocks = {
        "pairs": partial(_per_second, server, _KEY[keys] + _PAIR, clients),
        "floor": partial(_per_second, server, floor, clients),
        "hasty": partial(_per_second, server, floor, clients, _HASTY),
    }
    found = interleaved(ROUNDS, blocks, warm=0)
    name = f"{'one hot key' if keys == 1 else f'{keys:,} keys'}, {clients} clients, of the floor"
    detail: dict[str, Any] = {f"{what}/s": round(max(f)) for what, f in found.items()}
    hasty = ratio("", found["pairs"], found["hasty"]).value
    detail["of one that does not wait for the disk"] = f"{hasty:.2f}"
    bound = BOUNDS.get((keys, clients))
    return ratio(name, found["pairs"], found["floor"], bound=bound, at_least=True, detail=detail)


def measure_million() -> list[Figure]:
    """What a million pairs leave, to what half of them does: nothing grows with their number.

    Those released are remembered for a lease, and vacuumed once a minute: after half of them that is at its height.
    """
    with EmbeddedPostgresServer() as server:
        server.install()
        script = _KEY[KEYS] + _PAIR
        sizes = []
        for pairs in (HALF, HALF):
            _bench(server, script, CROWD, "-t", str(pairs // CROWD))
            sizes.append(_kilobytes(server))
    first, last = (sum(each.values()) for each in sizes)
    detail = {f"{name} kB": f"{sizes[0][name]} to {sizes[1][name]}" for name in LARGEST}
    label = f"tables after {2 * HALF:,} pairs on {KEYS:,} keys, to after {HALF:,}"
    return [Figure(label, last / first, 1.2, detail=detail)]


def _per_second(
    server: EmbeddedPostgresServer, script: str, clients: int, settings: str = ""
) -> float:
    said = _bench(server, script, clients, "-T", str(SECONDS), settings=settings)
    return float(re.findall(r"tps = ([\d.]+)", said)[-1])


def _bench(
    server: EmbeddedPostgresServer, script: str, clients: int, *length: str, settings: str = ""
) -> str:
    file = Path(server.directory) / "script.sql"
    file.write_text(script)
    arguments = ["-n", "-M", "prepared", "-c", str(clients), *length, "-f", str(file), server.url]
    command = [server.program("pgbench"), *arguments]
    environment = os.environ | {"PGOPTIONS": settings}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def _sizes(server: EmbeddedPostgresServer) -> Figure:
    """What all these pairs have left; the released are remembered for one to two leases."""
    kilobytes = _kilobytes(server)
    released = kilobytes.pop("released")
    total = sum(kilobytes.values()) / 1024
    detail = {"of the released kB": released}
    return Figure("tables after all of it", total, 1.0, unit="MB", detail=detail)


def _kilobytes(server: EmbeddedPostgresServer) -> dict[str, int]:
    """Of each table with its indexes."""
    sizes = """
        SELECT relname, pg_total_relation_size(oid) / 1024 FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'celery_semaphore'::regnamespace
    """
    return dict(server.run(sizes))
