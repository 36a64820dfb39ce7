"""What a process leaves behind at its end: releases that are queued are made, for a second at most."""

from __future__ import annotations

import time
from pathlib import Path

from celery_semaphore import Semaphore
from tests.support.servers import ValkeyServer
from tests.test_imports import run

RELEASES = """
import time
from celery_semaphore import Semaphore
from celery_semaphore.errors import StoreUnavailable

api = Semaphore("api", 9, url={url!r}, lease=60)
permits = [api.acquire() for _ in range(9)]
release, store = api._store.release, api._store

def away(*_):
    raise StoreUnavailable("gone")

def slowly(*given):
    time.sleep({each})
    return release(*given)

def slowly_all(calls, call_all=store.call_all):
    time.sleep({each})
    return call_all(calls)

store.call_all = slowly_all

store.release = away
for permit in permits:
    api.release(permit)
store.release = slowly
print(time.time())
"""


def test_queued_releases_are_made(valkey: ValkeyServer) -> None:
    run(RELEASES.format(url=valkey.url, each=0.01))
    assert Semaphore("api", 9, url=valkey.url, lease=60).available() == 9


def test_queued_releases_of_a_forked_child_are_made(valkey: ValkeyServer) -> None:
    """A process of ``multiprocessing`` ends without what others do at their end."""
    code = RELEASES.format(url=valkey.url, each=0.01)
    run(f"""
import multiprocessing
import celery_semaphore.semaphore

child = multiprocessing.get_context("fork").Process(target=exec, args=({code!r}, {{}}))
child.start()
child.join()
assert child.exitcode == 0
""")
    assert Semaphore("api", 9, url=valkey.url, lease=60).available() == 9


def test_queued_releases_of_a_child_of_a_fork_server_are_made(
    valkey: ValkeyServer, tmp_path: Path
) -> None:
    """It ends like a forked one, but imports everything by itself: before its target begins, or in it."""
    run_it = "def target(code):\n    exec(code, {})\n"
    (tmp_path / "late.py").write_text(run_it)
    (tmp_path / "early.py").write_text(f"import celery_semaphore.semaphore\n{run_it}")
    for n, module in enumerate(["late", "early"]):
        code = RELEASES.format(url=valkey.database(n), each=0.01)
        run(f"""
import multiprocessing, sys
sys.path.insert(0, {str(tmp_path)!r})
from {module} import target
if __name__ == "__main__":
    child = multiprocessing.get_context("forkserver").Process(target=target, args=({code!r},))
    child.start()
    child.join()
    assert child.exitcode == 0
""")
        assert Semaphore("api", 9, url=valkey.database(n), lease=60).available() == 9


def test_for_a_second_at_most(valkey: ValkeyServer) -> None:
    """The store may hang."""
    ended = float(run(RELEASES.format(url=valkey.url, each=30)))
    assert time.time() - ended < 5
    assert Semaphore("api", 9, url=valkey.url, lease=60).available() == 0


def test_of_several_stores_for_a_second_together(valkey: ValkeyServer) -> None:
    several = (
        RELEASES.format(url=valkey.url, each=30)
        + f"""
for n in range(9):
    other = Semaphore("api", 9, url={valkey.url!r}, prefix=f"other{{n}}")
    permit = other.acquire()
    other._store.release = away
    other.release(permit)
    other._store.release, other._store.call_all = slowly, slowly_all
print(time.time())
"""
    )
    ended = float(run(several).split()[-1])
    assert time.time() - ended < 5
