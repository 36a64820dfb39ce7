"""``celery -A app semaphore metrics``, as its user calls it, beside real servers and workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from celery_semaphore.core.claim import Claim
from tests.ops.conftest import Command
from tests.support.process import ROOT, free_port, listening, wait_until
from tests.worker.conftest import Site

from .conftest import Exporting, StartExporter

OFTEN = ("--interval", "0.2")
PARK: dict[str, Any] = {"semaphore_on_saturated": "park"}
CANARY = "canary-4711"


def test_once(site: Site, semaphore: Command) -> None:
    site.lease = 60.0  # a process may take as long to start as a short lease lasts
    store = site.store()
    store.acquire([Claim("tenant", CANARY, 2)], f"{CANARY}:1")
    store.declare({"api": 4}, "celery@other")
    store.close()
    said = semaphore("metrics", "--once")
    assert said.code == 0, said
    assert 'celery_semaphore_permits{semaphore="tenant",state="held"} 1.0\n' in said.out
    assert 'celery_semaphore_limit{semaphore="api",set_by="declared"} 4.0\n' in said.out
    assert CANARY not in said.out + said.err


def test_once_without_a_store(site: Site) -> None:
    secret = f"redis://:{CANARY}@127.0.0.1:{free_port()}/0"
    said = Command(site.env() | {"STORE": secret})("metrics", "--once")
    assert said.code == 1
    assert "\ncelery_semaphore_up 0.0\n" in said.out
    assert "celery_semaphore_limit{" not in said.out
    assert "Traceback" not in said.err
    assert CANARY not in said.out + said.err


def test_served_for_a_real_worker(site: Site, start_exporter: StartExporter) -> None:
    """No key, argument, task id or password is in what is answered or logged."""
    site.start(concurrency=3, conf=PARK)
    for number in range(4):
        site.send("export", CANARY, 3600.0, task_id=f"{CANARY}-{number}")
    exporter = start_exporter(*OFTEN, "--queue", "celery", env=site.env())
    exporter.wait_until(
        lambda: (
            'celery_semaphore_waiting{semaphore="tenant",state="parked"} 2.0' in exporter.text()
        ),
        40,
        "two are parked",
    )
    exporter.wait_until(
        lambda: json.loads(exporter.scale()[1]) == {"runnable": 2, "waiting": 2, "floor": 1},
        20,
        "two run",
    )
    text = exporter.text()
    assert 'celery_semaphore_runnable{queue="celery"} 2.0\n' in text
    assert 'celery_semaphore_keys{semaphore="tenant",state="saturated"} 1.0\n' in text
    status, error = exporter.scale("unknown")
    assert (status, list(json.loads(error))) == (404, ["error"])
    assert CANARY not in text + exporter.scale()[1] + exporter.log()
    bound = {
        each.laddr.ip
        for each in psutil.Process(exporter.pid).net_connections("tcp")
        if each.status == "LISTEN"
    }
    assert bound == {"127.0.0.1"}
    exporter.signal(15)
    assert exporter.wait(20) == 0


def test_the_store_goes_and_comes_back(
    site: Site, start_exporter: StartExporter, start_valkey: Any
) -> None:
    """Here it is away when the exporter starts, too; its password is never said."""
    store = start_valkey(requirepass=CANARY)
    store.kill()
    env = site.env({"semaphore_timeout": 1.0}) | {"STORE": store.url}
    exporter = start_exporter(*OFTEN, env=env)
    exporter.wait_until(lambda: exporter.is_up(0), 40, "it serves, without the store")
    store.start()
    exporter.wait_up()
    assert 'semaphore="api"' in exporter.text()
    store.kill()
    exporter.wait_up(0)
    assert [line for line in exporter.text().splitlines() if line[0] != "#"] == [
        "celery_semaphore_up 0.0"
    ]
    assert exporter.scale()[0] == 503
    store.start()
    exporter.wait_up()
    log = exporter.log()
    assert log.count("the store answers again") == 2
    assert CANARY not in log
    assert "Traceback" not in log


def test_the_broker_goes_and_comes_back(
    site: Site, start_exporter: StartExporter, start_valkey: Any
) -> None:
    broker = start_valkey(requirepass=CANARY)
    env = site.env() | {"BROKER": broker.url}
    exporter = start_exporter(*OFTEN, "-Q", "celery", env=env)
    gauge = 'celery_semaphore_runnable{queue="celery"} 0.0'
    exporter.wait_until(lambda: gauge in exporter.text(), 40, "it counts the queue")
    broker.kill()
    exporter.wait_until(lambda: exporter.scale()[0] == 503, 40, "it says that it cannot")
    assert gauge not in exporter.text()
    assert exporter.is_up(), "the store answers"
    broker.start()
    exporter.wait_until(lambda: exporter.scale()[0] == 200, 40, "it counts again")
    assert gauge in exporter.text()
    assert CANARY not in exporter.log()


def test_without_the_permission_it_goes_on(
    site: Site, start_exporter: StartExporter, start_valkey: Any
) -> None:
    store = start_valkey()
    with store.client() as client:
        client.execute_command("ACL SETUSER metrics on >canary-4711 ~* +@all -zscan")
    url = store.url.replace("redis://", f"redis://metrics:{CANARY}@")
    exporter = start_exporter(*OFTEN, env=site.env() | {"STORE": url})
    exporter.wait_until(lambda: exporter.is_up(0), 40, "it serves")
    lines = wait_until(
        lambda: [x for x in exporter.log().splitlines() if "ERROR" in x], 20, "a line"
    )
    (line,) = lines
    assert "zscan" in line.lower()
    with store.client() as client:
        client.execute_command("ACL SETUSER metrics +zscan")
    exporter.wait_up()
    assert CANARY not in exporter.log()


def test_a_port_that_is_taken(
    site: Site, semaphore: Command, start_exporter: StartExporter
) -> None:
    first = start_exporter(env=site.env())
    first.wait_up()
    said = semaphore("metrics", "--port", str(first.port))
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        f"Error: cannot listen on --address '127.0.0.1' --port {first.port}: Address already in use;"
        " another process may have this port: give another one.\n"
    )
    second = start_exporter(env=site.env())
    second.wait_up()
    assert first.is_up(), "two do no harm"


def test_another_address_only_if_asked(site: Site, start_exporter: StartExporter) -> None:
    exporter = start_exporter("--address", "0.0.0.0", env=site.env())  # noqa: S104 - that is the test
    exporter.wait_up()
    bound = {
        each.laddr.ip
        for each in psutil.Process(exporter.pid).net_connections("tcp")
        if each.status == "LISTEN"
    }
    assert bound == {"0.0.0.0"}  # noqa: S104 - as above


@pytest.mark.parametrize("address", ["nonsense", "a..b", ""])
def test_an_address_that_is_none(semaphore: Command, address: str) -> None:
    said = semaphore("metrics", "--address", address)
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        f"Error: cannot listen on --address {address!r} --port 9808: this address cannot be found:"
        " give an IP address or a name of this host.\n"
    )


@pytest.mark.parametrize("port", ["0", "70000", "abc", "-1", "9.5"])
def test_a_port_that_is_none(semaphore: Command, port: str) -> None:
    said = semaphore("metrics", "--once", f"--port={port}")
    assert said.code == 2, said
    assert f"'{port}' is not a port; give a whole number from 1 to 65535." in said.err


@pytest.mark.parametrize(
    "words",
    [
        ("--max-keys", "0"),
        ("--interval", "0"),
        ("--interval", "inf"),
    ],
)
def test_wrong_options(semaphore: Command, words: tuple[str, ...]) -> None:
    said = semaphore("metrics", "--once", *words)
    assert said.code == 2, said


def test_without_the_extra(site: Site, tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError\n")
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "tests.worker.app", "semaphore", "metrics"],
        env=os.environ | site.env() | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert 'pip install "celery_semaphore[prometheus]"' in line


def test_strange_names(site: Site, semaphore: Command) -> None:
    store = site.store()
    names = ['a"b\\', "a\nb", "x" * 10_000, "\ud800", "{}"]
    for name in names:
        store.acquire([Claim(name, None, 1)], f"holder of {len(name)}:1")
    store.close()
    said = semaphore("metrics", "--once")
    assert said.code == 0, said
    assert r'semaphore="a\"b\\"' in said.out
    assert r'semaphore="a\nb"' in said.out
    assert "x" * 200 not in said.out


def test_an_exporter_is_ended_by_ctrl_c(site: Site, start_exporter: StartExporter) -> None:
    exporter: Exporting = start_exporter(env=site.env())
    exporter.wait_up()
    exporter.signal(2)
    assert exporter.wait(20) == 0
    assert "Traceback" not in exporter.log()
    assert not listening(exporter.port)
