"""Measure what one permit costs at the store, on one connection."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import redis

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.support.servers import ValkeyServer

from .figure import Figure, interleaved, ratio

PAIRS = 500  # in one block
ROUNDS = 15
KEYS = 10_000
WAITING = Wait(Kind.REQUEUE)
FEW, MANY = 1_000, 1_000_000

# Writes tickets as the store does; they are due in an hour.
FILL = """
local transit, due, tickets = KEYS[1], KEYS[2], KEYS[3]
local name, first, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call("TIME")
local soon = (time[1] + 3600) * 1000000
local start = (time[1] - 60) * 1000000
local info = {claims = ARGV[4], names = {name}, weights = {[name] = 1}, limits = {[name] = 5}}
info.kind, info.due = "requeue", soon
info = cmsgpack.pack(info)
for n = first, first + count - 1 do
    local nonce = string.format("waiter-%d", n)
    local ticket = string.format("255.%016.0f.%s", start + n, nonce)
    redis.call("HSET", tickets, nonce, ticket:sub(1, 20) .. info)
    redis.call("ZADD", transit, 0, ticket)
    redis.call("ZADD", due, soon, nonce)
end
"""


def measure() -> list[Figure]:
    with ValkeyServer() as server, server.client() as client:
        store = store_from_url(server.url)
        store.check()
        figures = []
        for many in (False, True):
            names = _cycle(KEYS if many else 1)
            blocks: dict[str, Callable[[], float]] = {
                "pairs": partial(_pairs, store, names),
                "pings": lambda: _timed(lambda: (client.ping(), client.ping())),
                "set": partial(_sets, client, names),
            }
            found = interleaved(ROUNDS, blocks)
            keys = f"{KEYS:,} keys" if many else "one hot key"
            detail = {f"{name} us": round(1e6 * min(t) / PAIRS) for name, t in found.items()}
            figures += [
                ratio(
                    f"acquire + release to SET NX + DEL, {keys}",
                    found["pairs"],
                    found["set"],
                    bound=2.0,
                    detail=detail,
                ),
                ratio(f"acquire + release to two PINGs, {keys}", found["pairs"], found["pings"]),
            ]
        return [*figures, *_round_trips(client, store)]


def measure_waiters() -> list[Figure]:
    with ValkeyServer() as server, server.client() as client:
        store = store_from_url(server.url, StoreOptions(lease=600))
        crowds = {FEW: Claim("few", None, 5), MANY: Claim("many", None, 5)}
        for count, claim in crowds.items():
            for n in range(claim.limit or 0):
                store.acquire([claim], f"holder-{n}")
            _fill(client, claim, count)
        refused = interleaved(
            ROUNDS,
            {
                str(n): partial(_pairs, store, itertools.repeat(claim))
                for n, claim in crowds.items()
            },
        )
        for claim in crowds.values():
            store.release("holder-0", [claim])
        admitted = interleaved(
            ROUNDS,
            {
                str(n): partial(_pairs, store, itertools.repeat(claim))
                for n, claim in crowds.items()
            },
        )
        label = f"{MANY:,} waiters to {FEW:,}"
        return [
            ratio(
                f"refused acquire + release, {label}",
                refused[str(MANY)],
                refused[str(FEW)],
                bound=1.5,
            ),
            ratio(
                f"admitted acquire + release, {label}",
                admitted[str(MANY)],
                admitted[str(FEW)],
                bound=1.5,
            ),
        ]


def _cycle(keys: int) -> Iterator[Claim]:
    one = keys == 1
    return itertools.cycle([Claim("api", None if one else f"key-{n}", 10) for n in range(keys)])


def _pairs(store: Any, claims: Iterator[Claim]) -> float:
    """Time pairs of acquire and release, each by a new holder, like every delivery of a task."""
    holders = [f"{uuid.uuid4()}:{n:016x}" for n in range(PAIRS)]
    start = time.perf_counter()
    for holder in holders:
        claim = [next(claims)]
        store.acquire(claim, holder, WAITING)
        store.release(holder, claim)
    return time.perf_counter() - start


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(PAIRS):
        call()
    return time.perf_counter() - start


def _sets(client: redis.Redis, claims: Iterator[Claim]) -> float:
    return _timed(lambda: _set_and_delete(client, next(claims)))


def _set_and_delete(client: redis.Redis, claim: Claim) -> None:
    client.set(claim.resource, "holder", nx=True, px=30_000)
    client.delete(claim.resource)


def _fill(client: redis.Redis, claim: Claim, count: int, batch: int = 10_000) -> None:
    name = claim.resource
    keys = [f"{{celery-semaphore}}:{name}:{part}" for part in ("transit", "due", "tickets")]
    for first in range(0, count, batch):
        client.eval(FILL, 3, *keys, name, first, min(batch, count), '[["x",null,5,1]]')


def _round_trips(client: redis.Redis, store: Any) -> list[Figure]:
    """Count the round trips of a pair at the server."""
    claim = [Claim("api", None, 10)]
    client.config_resetstat()
    for n in range(PAIRS):
        store.acquire(claim, f"trip-{n}", WAITING)
        store.release(f"trip-{n}", claim)
    calls = {name: stat["calls"] for name, stat in client.info("commandstats").items()}
    scripts = calls.get("cmdstat_evalsha", 0) + calls.get("cmdstat_eval", 0)
    seen = client.info("stats")["total_commands_processed"]
    detail = {"commands seen by the server, those inside the scripts too": seen / PAIRS}
    return [Figure("round trips of one pair", scripts / PAIRS, 2.0, unit="", detail=detail)]
