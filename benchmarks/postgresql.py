"""Compare permits in PostgreSQL, by pgbench, with two updates of a single row, each in its own transaction.

The updates run at the permits' durability, which does not wait for the disk, and at a server's default, which does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.postgres import EmbeddedPostgresServer

from .figure import Figure, interleaved, ratio

SECONDS = 4  # of one block
ROUNDS = 3
KEYS = 1_000
HALF, CROWD = 500_000, 16  # half of a million pairs, and the number of clients
LARGEST = ("permit", "resource", "released")  # tables
# The least ratio to the floor, by keys and clients: at the same durability, and with a slow flush.
BOUNDS = {(1, 16): 0.16, (KEYS, 16): 0.45}
SLOW_BOUNDS = {(1, 16): 1.0}
SLOW_FLUSH = Path(__file__).with_name("slow_flush.c")

_KEY = {1: r"\set k 0", KEYS: rf"\set k random(1, {KEYS})"}
_PAIR = r"""
\set h random(1, 1000000000000)
SELECT * FROM celery_semaphore.v1_acquire('(,30000000,30000000,,2000)', ROW(
    'h' || :client_id || '-' || :h, NULL, '', 'requeue', 0, 100000, 300000000, 1.0, NULL, '', 0, '[]',
    't' || :client_id || '-' || :h, NULL, 3600000000,
    ARRAY['api/' || :k], ARRAY[16]::bigint[], ARRAY[1]::bigint[])::celery_semaphore.v1_acquisition);
SELECT * FROM celery_semaphore.v1_release('(,30000000,30000000,,2000)', 'h' || :client_id || '-' || :h,
    't' || :client_id || '-' || :h, NULL, 3600000000, ARRAY['api/' || :k]);
"""
# On the hot key, too, each client has its own row, so that no update waits for another one's.
_OWN_ROW = {1: r"\set k :client_id + 1", KEYS: _KEY[KEYS]}
_HASTY = "-c synchronous_commit=off"  # permits are written like this
_UPDATE = "\nUPDATE floor SET n = n + 1 WHERE id = :k;" * 2


def measure() -> list[Figure]:
    with EmbeddedPostgresServer(fsync="on") as server:
        _prepare(server)
        figures = [_against(server, keys, n) for keys in (1, KEYS) for n in (1, 4, 16)]
        figures.append(_sizes(server))
    return [*figures, *_where_a_flush_is_slow()]


def _prepare(server: EmbeddedPostgresServer) -> None:
    server.install()
    server.run(
        "CREATE TABLE floor (id int PRIMARY KEY, n int) WITH (fillfactor = 50)",
        f"INSERT INTO floor SELECT id, 0 FROM generate_series(1, {KEYS}) AS id",  # noqa: S608 - a number
    )


def _against(server: EmbeddedPostgresServer, keys: int, clients: int) -> Figure:
    """Compare in pairs per second, so that more is better."""
    blocks = _blocks(server, keys, clients)
    found = interleaved(ROUNDS, blocks, warm=0)
    detail = _rates(found)
    patient = ratio("", found["pairs"], found["patient"]).value
    detail["of one that waits for the disk"] = f"{patient:.2f}"
    name = f"{_where(keys, clients)}, of the floor"
    bound = BOUNDS.get((keys, clients))
    return ratio(name, found["pairs"], found["floor"], bound=bound, at_least=True, detail=detail)


def _where_a_flush_is_slow() -> list[Figure]:
    compiler = shutil.which("cc")
    if compiler is None:
        print("no C compiler: not measured where a flush takes 2 ms more", file=sys.stderr)
        return []
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)  # the server runs as another user
        library = Path(directory) / "slow_flush.so"
        command = [compiler, "-shared", "-fPIC", "-o", str(library), str(SLOW_FLUSH), "-ldl"]
        subprocess.run(command, check=True)
        env = {"LD_PRELOAD": str(library)}
        with EmbeddedPostgresServer(env=env, fsync="on") as server:
            _prepare(server)
            return [_against_patient(server, keys) for keys in (1, KEYS)]


def _against_patient(server: EmbeddedPostgresServer, keys: int) -> Figure:
    """Compare with a floor that waits for the disk, as a server does by default."""
    blocks = _blocks(server, keys, CROWD)
    del blocks["floor"]
    found = interleaved(ROUNDS, blocks, warm=0)
    pairs, patient, detail = found["pairs"], found["patient"], _rates(found)
    name = f"{_where(keys, CROWD)}, of the floor that waits for a disk 2 ms slower"
    bound = SLOW_BOUNDS.get((keys, CROWD))
    return ratio(name, pairs, patient, bound=bound, at_least=True, detail=detail)


def _blocks(server: EmbeddedPostgresServer, keys: int, clients: int) -> dict[str, Any]:
    floor = _OWN_ROW[keys] + _UPDATE
    return {
        "pairs": partial(_per_second, server, _KEY[keys] + _PAIR, clients),
        "floor": partial(_per_second, server, floor, clients, _HASTY),
        "patient": partial(_per_second, server, floor, clients),
    }


def _rates(found: dict[str, list[float]]) -> dict[str, Any]:
    return {f"{what}/s": round(max(f)) for what, f in found.items()}


def _where(keys: int, clients: int) -> str:
    return f"{'one hot key' if keys == 1 else f'{keys:,} keys'}, {clients} clients"


def measure_million() -> list[Figure]:
    """Compare the tables after a million pairs with those after half of them: they must not grow with the number.

    Released holders are remembered for a lease, and vacuumed once a minute: after half the pairs that is at its height.
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
    command = [str(server.program("pgbench")), *arguments]
    environment = os.environ | {"PGOPTIONS": settings}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def _sizes(server: EmbeddedPostgresServer) -> Figure:
    """Return the size of the tables after all pairs; released holders are remembered for one to two leases."""
    kilobytes = _kilobytes(server)
    released = kilobytes.pop("released")
    total = sum(kilobytes.values()) / 1024
    detail = {"of the released kB": released}
    return Figure("tables after all of it", total, 1.0, unit="MB", detail=detail)


def _kilobytes(server: EmbeddedPostgresServer) -> dict[str, int]:
    """Return the size of each table with its indexes."""
    sizes = """
        SELECT relname, pg_total_relation_size(oid) / 1024 FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'celery_semaphore'::regnamespace
    """
    return dict(server.run(sizes))
