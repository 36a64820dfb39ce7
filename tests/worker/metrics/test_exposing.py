"""The port of a worker: who has it, who has not, and what it shows."""

from __future__ import annotations

import math
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from celery.signals import setup_logging

from celery_semaphore import LimitedTask
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.settings import Settings
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.main_process import worker_metrics
from celery_semaphore.worker.main_process.worker_metrics import metrics_of
from tests.conftest import StartServer
from tests.metrics.scraped import Scraped, text_from
from tests.support.process import free_port, listening, wait_until
from tests.support.servers import ValkeyServer
from tests.support.variants import also

from ..conftest import Site
from .conftest import StartWatched
from .test_counts import done


def may_listen(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def test_a_port_that_is_taken_costs_the_metrics_and_no_task(
    site: Site, watched: StartWatched
) -> None:
    first = watched()
    second = watched({"semaphore_metrics_port": first.port})
    (line,) = [each for each in second.worker.log().splitlines() if "no metrics" in each]
    assert "WARNING" in line
    assert (
        f"semaphore_metrics_address='127.0.0.1' semaphore_metrics_port={first.port}:"
        " Address already in use; another process may have this port: give another one. Each worker"
    ) in line
    first.worker.warm()
    first.worker.wait(20)
    done(site.send("call", 0.01))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, *also(signal.SIGQUIT)])
def test_a_worker_that_ends_frees_its_port(
    site: Site, watched: StartWatched, how: signal.Signals
) -> None:
    """Although a process of its pool was forked while it listened, and runs a task."""
    here = watched(concurrency=1)
    first = here.worker.kill_child()
    wait_until(lambda: here.worker.children() not in ([], [first]), 20, "another process")
    site.occupy()
    if how is signal.SIGTERM:
        site.let_go()
    here.worker.signal(how)
    wait_until(lambda: may_listen(here.port), 20, "the port is free")


def test_a_pool_that_is_restarted(site: Site, watched: StartWatched) -> None:
    here = watched({"worker_pool_restarts": True})
    done(site.send("call", 0.01))
    before = here.worker.children()
    site.client.control.pool_restart(destination=[here.worker.hostname], reply=True, timeout=10)
    sent = 1

    def replaced() -> bool:
        nonlocal sent
        sent += 2
        done(
            site.send("call", 0.01), site.send("call", 0.01)
        )  # each process ends after its next task
        return not set(before) & set(here.worker.children())

    wait_until(replaced, 20, "other processes")
    done(*(site.send("call", 0.01) for _ in range(4)))
    here.wait(sent + 4, "held_seconds_count", semaphore="api")
    assert here.get("acquired_total", semaphore="api") == sent + 4
    assert here.get("worker_processes") == 2


def test_a_process_that_died_takes_no_count_with_it(site: Site, watched: StartWatched) -> None:
    here = watched()
    done(*(site.send("call", 0.01) for _ in range(4)))
    killed = site.send("early", "kill", "k")
    done(killed)
    done(*(site.send("call", 0.01) for _ in range(4)))
    here.wait(9, "held_seconds_count")
    assert here.get("acquired_total", semaphore="api") == 8
    assert here.get("acquired_total", semaphore="one") == 1


def test_the_way_of_prometheus_with_several_processes_changes_nothing(
    site: Site, watched: StartWatched, tmp_path: Path
) -> None:
    here = watched(env={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)})
    done(*(site.send("call", 0.01) for _ in range(10)))
    here.wait(10, "held_seconds_count")
    assert here.get("acquired_total") == 10
    assert not list(tmp_path.iterdir())


def test_only_this_host_is_answered_unless_said_otherwise(
    site: Site, watched: StartWatched
) -> None:
    here = watched()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: it only finds this host's own address
        own = probe.getsockname()[0]
    if own.startswith("127."):
        pytest.skip("this host has no address but its own")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((own, here.port), timeout=5)


def test_neither_keys_nor_arguments_nor_passwords(
    site: Site, watched: StartWatched, start_valkey: StartServer
) -> None:
    store = start_valkey(requirepass="PASSWORDcanary")
    site.store_url = store.url
    assert "PASSWORDcanary" in site.store_url
    here = watched({"semaphore_on_saturated": "park", "task_annotations": {"export": {"limit": 1}}})
    results = [site.send("export", "KEYcanary", 0.2) for _ in range(3)]
    done(*results, site.send("both", "KEYcanary"), site.send("look", "ARGcanary", x="ARGcanary"))
    here.wait(2, "brought_back_total", semaphore="tenant")
    store.kill()
    lost = site.send("export", "KEYcanary", 0.1)
    wait_until(lambda: here.get("store_errors_total") > 0, 20, "the store is missed")
    lost.revoke()
    text = text_from(here.port)
    assert 'semaphore="tenant",task="export"' in text
    assert "canary" not in text


# -- in this process


@pytest.fixture
def logging_untouched() -> Iterator[None]:
    """A worker would set up logging for the whole process of the tests."""
    setup_logging.connect(lambda **_: None, weak=False, dispatch_uid="metrics")
    yield
    setup_logging.disconnect(dispatch_uid="metrics")


def an_app(url: str = "memory://", **conf: object) -> Celery:
    app = Celery(
        "metrics", broker=url, backend=url.replace("memory:", "cache+memory:"), set_as_current=False
    )
    app.conf.update(conf)
    if url.startswith("memory"):
        app.conf.semaphore_url = url

    @app.task(base=LimitedTask, semaphore="one", limit=1, name="nap", shared=False)
    def nap() -> None:
        time.sleep(0.01)

    app.finalize()
    return app


def test_workers_one_after_the_other_in_one_process(
    valkey: ValkeyServer, logging_untouched: None
) -> None:
    port = free_port()
    app = an_app(valkey.url, semaphore_metrics_port=port)
    for _ in range(2):
        with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=20):
            app.tasks["nap"].delay().get(timeout=20, disable_sync_subtasks=False)
            wait_until(lambda: Scraped.of(port).get("held_seconds_count") == 1, 10, "it is counted")
            assert Scraped.of(port).get("acquired_total", task="nap") == 1
        assert not listening(port)


@pytest.mark.parametrize("port", [-1, 65536, 1.5, "x", True, math.inf, None])
def test_a_port_that_is_none(port: object) -> None:
    app = an_app(semaphore_metrics_port=port)
    if port is None:
        assert Settings.from_app(app).metrics_port == 0
        return
    said = f"semaphore_metrics_port={port!r} must be a port number, 0 to 65535."
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        Settings.from_app(app)


@pytest.mark.parametrize("address", ["", " ", 1])
def test_an_address_that_is_none(address: object) -> None:
    with pytest.raises(ConfigurationError, match=r"semaphore_metrics_address=.* must be"):
        Settings.from_app(an_app(semaphore_metrics_address=address))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "192.0.2.1",
            "Cannot assign requested address; this is not an address of this host: give one",
        ),
        ("nonsense", "this address cannot be found: give an IP address or a name of this host."),
    ],
)
def test_a_wrong_address_costs_no_task(
    site: Site, watched: StartWatched, address: str, said: str
) -> None:
    here = watched({"semaphore_metrics_address": address})
    assert f"semaphore_metrics_address={address!r}" in here.worker.log()
    assert f": {said}" in here.worker.log()
    done(site.send("call", 0.01))


def test_a_worker_without_the_package_ends_at_once() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from celery import Celery; from celery_semaphore import LimitedTask\n"
        "app = Celery('a', broker='memory://'); app.conf.semaphore_url = 'memory://'\n"
        "app.conf.semaphore_metrics_port = 1\n"
        "@app.task(base=LimitedTask, semaphore='one', limit=1)\n"
        "def nap(): ...\n"
        "app.Worker(pool='solo')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'pip install "celery_semaphore[prometheus]"' in done.stderr.splitlines()[-1]


def test_metrics_that_are_off_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_metrics, "is_on", lambda _: False)
    monkeypatch.setattr("celery_semaphore.worker.limiter.is_on", lambda _: False)
    limiter = limiter_of(an_app())
    assert metrics_of(limiter, []) is None
    assert limiter.process.measured is limiter.process.store
    assert limiter.process.announce._listeners == []


@pytest.mark.parametrize(
    ("port", "installed", "on"), [(0, False, False), (0, True, True), (1, False, True)]
)
def test_they_are_on_if_something_reads_them(
    port: int, installed: bool, on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "celery_semaphore.metrics.measured_store"
    monkeypatch.setattr(f"{module}.find_spec", lambda _: object() if installed else None)
    limiter = limiter_of(an_app(semaphore_metrics_port=port))
    assert (limiter.process.measured is not limiter.process.store) == on
