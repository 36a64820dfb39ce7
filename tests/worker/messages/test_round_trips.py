"""The round trips to the store that one hand-over takes, one after the other; far away each of them is long."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha1
from itertools import groupby

import pytest

from celery_semaphore.stores.redis import scripts
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
