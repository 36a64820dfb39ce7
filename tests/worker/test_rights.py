"""A worker and its tasks on a store by the user of docs/operate/redis.md, who has no more rights than these."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.counter import Counter, CounterServer
from tests.support.process import wait_until
from tests.support.rights import PASSWORD, as_user
from tests.support.servers import ValkeyServer

from .conftest import Site, site_on


@pytest.fixture
def site(valkey: ValkeyServer, counter_server: CounterServer, counter: Counter) -> Iterator[Site]:
    yield from site_on(valkey, counter_server, store_url=as_user(valkey, database=1))


@pytest.mark.parametrize("how", ["requeue", "park"])
def test_the_documented_rights_suffice_for_a_worker(site: Site, how: str) -> None:
    worker = site.start(concurrency=2, conf={"semaphore_on_saturated": how})
    (first,) = site.occupy()
    second = site.send("hold", 0.0)
    wait_until(lambda: site.waiting() == 1, 20, "the second one waits")
    site.let_go()
    for result in (first, second):
        result.get(timeout=20)
    assert "permission" not in worker.log()
    assert PASSWORD not in worker.log()
