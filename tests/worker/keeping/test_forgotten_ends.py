"""A store that lost its last moments grants nothing to waits that have ended: each grant would idle for two seconds."""

from __future__ import annotations

from celery_semaphore.core.claim import Claim
from tests.support.forgetful import forgetful
from tests.support.process import wait_until

from ..conftest import Site, valkey_only

COUNT, FORGOTTEN = 60, 30
ONE = Claim("one", None, 1)


@valkey_only
def test_only_what_is_kept_is_granted(site: Site) -> None:
    """Let the store forget the ends of many tasks of a living worker; a grant to each would take a minute."""
    with forgetful("valkey") as server:
        site.store_url = server.url
        worker = site.start(concurrency=2)
        (kept,) = site.occupy()
        results = [site.send("hold", 0.05, "w") for _ in range(COUNT)]
        wait_until(lambda: worker.log().count("] waits ") >= COUNT, 60, "all are refused")
        server.save()
        site.let_go()
        wait_until(lambda: site.counter.stats("w")["entries"] >= FORGOTTEN, 60, "many have ended")
        server.restart()
        for each in [kept, *results]:
            each.get(timeout=FORGOTTEN)
        seen = site.counter.stats("w")
        assert (seen["entries"], seen["max_inside"]) == (COUNT, 1)
        site.wait_all_back(ONE, 20)
