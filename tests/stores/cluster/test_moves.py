"""Calls that follow their slot to another node."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest
import redis

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.redis.connection import exchanged
from tests.support.cluster import ClusterServer
from tests.support.process import wait_until

from ..conftest import claim, permit_of, refusal_of
from .conftest import Open, answers_of, connections, in_parallel, questions


class TestMoves:
    def test_a_failover_begins_an_epoch(self, cluster: ClusterServer, open_store: Open) -> None:
        store = open_store()
        permit = permit_of(store.acquire(claim(2), "a"))
        before = store.epoch or 0
        cluster.fail_over()
        assert refusal_of(store.acquire(claim(2), "b")).reason is Reason.RECOVERING
        assert store.renew([permit])["a"] in {Renewal.OK, Renewal.RESTORED}
        assert (store.epoch or 0) > before

    def test_no_connection_to_the_former_owner_is_kept(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        store = open_store()
        former = cluster.owner()

        def called_at_once() -> bool:
            in_parallel(lambda: store.snapshot("api"))
            return connections(former) > 1

        wait_until(called_at_once, 20, "several connections")
        cluster.fail_over()
        store.snapshot("api")
        wait_until(lambda: connections(former) == 0, 5, "all are closed")
        store.snapshot("api")
        assert connections(cluster.owner()) == 1

    def test_a_call_that_is_under_way_keeps_no_connection_to_the_former_owner(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        store = open_store()
        store.snapshot("api")
        former = cluster.owner()

        def exchange(connection: Any) -> None:
            """Answered by the former owner, and returned when another thread has gone on."""
            if connection.port == former.port:
                cluster.fail_over()
                in_parallel(lambda: store.snapshot("api"), threads=1)

        store._link.ask(exchange)
        assert connections(former) == 0

    @pytest.mark.usefixtures("redis_py")
    def test_a_batch_that_is_cut_in_half_is_repeated_as_a_whole(
        self, cluster: ClusterServer, open_store: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = open_store()
        names = [f"of{n}" for n in range(20)]
        for name in names:
            permit_of(store.acquire(claim(of=name), name))
        halves = list[int]()

        def cut(connection: Any, commands: list[bytes]) -> list[Any]:
            if halves:
                return exchanged(connection, commands)
            found = exchanged(connection, commands[:10])
            cluster.fail_over()
            found += exchanged(connection, commands[10:])
            halves.extend(isinstance(each, redis.exceptions.MovedError) for each in found)
            return found

        monkeypatch.setattr("celery_semaphore.stores.redis.runner.exchanged", cut)
        seen = list(store.snapshots(names))
        assert halves == [False] * 10 + [True] * 10
        assert [(each.resource, each.occupied) for each in seen] == [(n, 1) for n in names]

    def test_a_child_follows_by_itself(self, cluster: ClusterServer, open_store: Open) -> None:
        store = open_store()
        permit_of(store.acquire(claim(9), "parent"))
        cluster.fail_over()
        pid = os.fork()
        if not pid:  # pragma: no cover - in the child
            code = 1
            try:
                store.release("parent", claim(9))
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert store.snapshot("api").occupied == 0

    def test_threads_get_their_own_answers(self, cluster: ClusterServer, open_store: Open) -> None:
        store = open_store(lease=60.0)  # there are no renewals, and two failovers take their time
        wrong: list[Any] = []
        ended = threading.Event()
        names = [f"of{n}" for n in range(6)]
        for name in names:  # the holder has the name of its resource
            permit_of(store.acquire(claim(of=name), name))

        def run(name: str) -> None:
            while not ended.is_set():
                seen = [held.holder for held in store.snapshot(name).holders]
                if seen != [name]:
                    wrong.append((name, seen))

        threads = [threading.Thread(target=run, args=[name]) for name in names]
        for thread in threads:
            thread.start()
        cluster.fail_over()
        cluster.wait_whole()
        cluster.fail_over()
        ended.set()
        for thread in threads:
            thread.join()
        assert wrong == []

    @pytest.mark.usefixtures("redis_py")
    @pytest.mark.parametrize("used", [True, False], ids=["TRYAGAIN", "ASK"])
    def test_while_the_slot_migrates(
        self, cluster: ClusterServer, open_store: Open, used: bool
    ) -> None:
        store = open_store(timeout=1.0)
        permit = permit_of(store.acquire(claim(2), "a"))
        if not used:
            cluster.flush()
        source, _ = migration = cluster.begin_migration()
        since, error = time.monotonic(), "TRYAGAIN" if used else "ASK"
        before, asked = answers_of(source, error), questions(cluster)
        with pytest.raises(StoreUnavailable, match=r"(TRYAGAIN|ASK).*being moved"):
            store.acquire(claim(2), "b")
        assert time.monotonic() - since < 2
        assert answers_of(source, error) - before == 1 + 4
        assert questions(cluster) - asked <= 1 + 4  # by new connections
        cluster.end_migration(*migration)
        assert refusal_of(store.acquire(claim(2), "b")).reason is Reason.RECOVERING
        assert store.renew([permit]) == {"a": Renewal.OK if used else Renewal.RESTORED}

    def test_a_slot_that_moves_at_once(self, cluster: ClusterServer, open_store: Open) -> None:
        store = open_store()
        permit = permit_of(store.acquire(claim(2), "a"))
        cluster.migrate_at_once()
        assert store.renew([permit]) == {"a": Renewal.OK}
        assert refusal_of(store.acquire(claim(2), "b")).reason is Reason.RECOVERING
