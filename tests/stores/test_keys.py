"""The names of a store's keys on servers of the Redis family."""

from itertools import product
from typing import Any

import pytest
from redis.crc import key_slot

from celery_semaphore.core.key import resource_name
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.settings import Settings
from celery_semaphore.stores.redis.keys import Keys
from celery_semaphore.stores.redis.runner import COMMON
from celery_semaphore.stores.redis.scripts import PARTS
from tests.support.servers import RedisServer

from .conftest import OpenAt, claim, permit_of, refusal_of

BROKERS = "brokers"
# Such as could be taken for a key of another kind.
ODD = [
    "",
    "api",
    "of",
    "granted",
    "a{b",
    "a}:b",
    "{x}",
    *COMMON,
    BROKERS,
    *PARTS,
    "api:of",
    "epoch:holders",
]
TASKS = ["", "t:0", "holders", "api:holders", "of:t:0", "{x}:0"]


def all_keys(prefix: str) -> list[str]:
    keys = Keys(prefix)
    resources = [resource_name(name, key) for name in ODD for key in (None, *ODD)]
    return [
        *(keys.common(name) for name in (*COMMON, BROKERS)),
        *(keys.part(resource, part) for resource, part in product(resources, PARTS)),
        *(keys.messages(resource, task) for resource, task in product(resources, TASKS)),
        *(keys.consumers(queue) for queue in {*ODD, *TASKS}),
    ]


@pytest.mark.parametrize("prefix", ["celery-semaphore", "a", "a:b", ":", "a b", "Prefix/€"])
def test_all_keys_are_in_one_hash_slot(prefix: str) -> None:
    found = {key_slot(key.encode()) for key in all_keys(prefix)}
    assert found == {key_slot(prefix.encode())}


def test_no_key_is_taken_for_another() -> None:
    keys = [key for prefix in ("a", "a:epoch", "a:api") for key in all_keys(prefix)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("prefix", ["", "{", "}", "{celery-semaphore}", "a{b}c", "a}b"])
def test_a_prefix_with_braces_is_refused(prefix: str) -> None:
    settings = Settings("redis://localhost", prefix=prefix)
    with pytest.raises(ConfigurationError, match=r"^semaphore_prefix='.*hash slot"):
        settings.open_store()


def test_a_server_has_no_other_keys(server: RedisServer, open_at: OpenAt) -> None:
    """A task that waits, is parked and comes back; a limit that an operator set."""
    store, both = open_at(server.url, prefix="p"), claim(2) + claim(of="epoch", weight=1)
    permit_of(store.acquire(both, "a"))
    message = MessageId("t:0", "a.1")
    ticket = refusal_of(store.acquire(both, "b", Wait(Kind.PARK), message)).ticket
    assert ticket
    store.attach(ticket, both, b"b", name="t")
    refusal_of(store.acquire(both, "c", Wait(Kind.REQUEUE)))
    store.set_limit(1, "api")
    store.consume("worker", ["epoch", "celery.granted"])
    store.brokers("redis://localhost:6379/0")
    with server.client() as client:
        names: Any = client.keys()
    known = {key.encode() for key in (Keys("p").common(name) for name in (*COMMON, BROKERS))}
    known |= {Keys("p").consumers(queue).encode() for queue in ("epoch", "celery.granted")}
    for name in ("api", "epoch"):
        known |= {Keys("p").part(name, part).encode() for part in PARTS}
        known |= {Keys("p").messages(name, "t:0").encode()}
    assert set(names) <= known
    assert {key_slot(name) for name in names} == {key_slot(b"p")}
    assert len(names) > len(COMMON)
