"""The round trips to the store that one hand-over takes, one after the other; far away each of them is long."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from hashlib import sha1
from itertools import groupby

import pytest
from celery import Celery

from celery_semaphore.core.permit import Grant
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.redis import scripts
from celery_semaphore.worker.limiter import limiter_of
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer

from ..conftest import Site, valkey_only

SCRIPTS = {
    sha1(script.source.encode(), usedforsecurity=False).hexdigest().encode(): name.lower()
    for name, script in vars(scripts).items()
    if isinstance(script, scripts.Script)
}
# On the way from the end of one task to the begin of the next; ``sent`` is called beside it.
ON_THE_WAY = {"release", "take", "unconsumed", "acquire"}


class Recorder(Proxy):
    """Notes which scripts are called."""

    def __init__(self, target_port: int) -> None:
        super().__init__(target_port)
        self.called: list[str] = []

    def _seen(self, request: bytes) -> bool:
        self.called += [name for digest, name in SCRIPTS.items() if digest in request]
        return super()._seen(request)


@pytest.fixture
def recorder(valkey: ValkeyServer) -> Iterator[Recorder]:
    with Recorder(valkey.port) as recorder:
        yield recorder


@valkey_only
@pytest.mark.parametrize(
    ("way", "calls"),
    [("requeue", ["release", "acquire"]), ("park", ["release", "take", "acquire"])],
)
def test_a_hand_over(site: Site, recorder: Recorder, way: str, calls: list[str]) -> None:
    """Each costs the permit a round trip: the page of sizes and costs computes with these numbers."""
    site.lease = 60.0
    site.store_url = f"redis://127.0.0.1:{recorder.port}/1"
    site.start(concurrency=2, conf={"semaphore_on_saturated": way})
    refused = {"requeue": "acquire", "park": "attach"}[way]
    for known in (False, True):  # the scripts, by their digests
        held = f"held {known}"
        site.occupy(resource=held)
        recorder.called.clear()
        waits = site.send("hold", 0.0, "w")
        wait_until(lambda: site.waiting() == 1, 20, "it waits")
        if known:
            wait_until(lambda: refused in recorder.called, 20, "and its message, too")
        recorder.called.clear()
        site.let_go(held)
        waits.get(timeout=20)
    seen = [name for name in recorder.called if name in ON_THE_WAY]
    begin = seen[: seen.index("acquire") + 1]
    assert [name for name, _ in groupby(begin)] == calls


@pytest.mark.parametrize("fails", [False, True])
def test_one_call_takes_what_was_handed_on_meanwhile(
    app: Celery, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Or a worker brings back one task in each round trip, whatever the limit is. What was not taken is taken again."""
    limiter = limiter_of(app)
    taken, begun, go_on = list[Collection[str]](), threading.Event(), threading.Event()

    def take(names: Collection[str], _broker: str | None = None) -> list[Grant]:
        taken.append(names)
        begun.set()
        assert go_on.wait(10)
        if fails and len(taken) == 1:
            raise StoreUnavailable("gone")
        return []

    monkeypatch.setattr(limiter.process.store, "take", take)
    limiter.mover.bring_back(frozenset("a"))
    assert begun.wait(10)
    for name in "bcb":
        limiter.mover.bring_back(frozenset(name))
    go_on.set()
    limiter.mover.flush(10)
    assert taken == [{"a"}, {"a", "b", "c"} if fails else {"b", "c"}]
    limiter.mover.close(10)
