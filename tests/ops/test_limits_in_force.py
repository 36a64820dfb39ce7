"""Which limit an operator is shown: the one in force, also while nothing holds a permit or waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.declared_limit import DeclaredLimit
from celery_semaphore.core.key import all_keys_of, any_key_of
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.store import Store
from celery_semaphore.metrics.labels import BoundedLabel
from celery_semaphore.ops import answers, tables
from celery_semaphore.ops.inspector import Inspector
from celery_semaphore.ops.metrics.collection import collect
from celery_semaphore.ops.views import SemaphoreView
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing import Clock, MemoryStore
from tests.support.variants import also

OWN = {"api": 5, "export": 9}
ELSEWHERE = {"api": 2, all_keys_of("export"): 3}


@pytest.fixture(
    params=[
        "memory",
        "valkey",
        "postgres",
        "cluster",
        *also("redis"),
    ]
)
def any_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    options = StoreOptions(now=Clock())
    if request.param == "memory":
        yield MemoryStore(options)
        return
    with closing(store_from_url(request.getfixturevalue(request.param).url, options)) as opened:
        yield opened


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(StoreOptions(now=Clock()))


def of_app(store: Store) -> Inspector:
    """Return the inspector of an app that declares other limits than the workers of the store."""
    return Inspector(store, declared=OWN, keyed=["export"])


def listed(inspector: Inspector) -> dict[str, SemaphoreView]:
    return {view.semaphore: view for view in inspector.semaphores()}


def rows(inspector: Inspector) -> dict[str, str]:
    lines = tables.semaphores(inspector.semaphores()).splitlines()
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in lines if line}


def test_an_idle_semaphore_has_the_limit_that_a_worker_declared(any_store: Store) -> None:
    any_store.declare(ELSEWHERE, "celery@other")
    inspector = of_app(any_store)
    views = listed(inspector)
    assert {name: (view.limits, view.own_limit) for name, view in views.items()} == {
        "api": ((2,), 5),
        "export": ((3,), 9),
    }
    assert views["api"].declared == DeclaredLimit(2, "celery@other")
    assert views["export"].declared == DeclaredLimit(3, "celery@other")
    for name, each_key in (("api", False), ("export", True), ("export/7", False)):
        seen = inspector.resource(name)
        limit = 2 if name == "api" else 3
        assert (seen.limit, seen.for_each_key) == (limit, each_key)
        assert seen.declared == DeclaredLimit(limit, "celery@other")
    assert any_key_of("export") not in set(any_store.resources()), "a look uses nothing"


def test_what_is_declared_for_all_keys_is_over_with_its_windows() -> None:
    clock = Clock()
    store = MemoryStore(StoreOptions(now=clock))
    store.declare(ELSEWHERE, "celery@other")
    for _ in range(4):  # no silence
        clock.advance(16)
        store.reap()
    views = listed(of_app(store))
    assert (views["api"].limits, views["export"].limits) == ((2,), ())


def test_the_limit_of_an_operator_is_that_of_each_key(any_store: Store) -> None:
    any_store.declare(ELSEWHERE, "celery@other")
    any_store.set_limit(4, "export")
    seen = of_app(any_store).resource("export")
    assert (seen.limit, seen.set_by_operator, seen.for_each_key) == (4, True, True)
    assert answers.in_force(seen, {}) == "export: the limit of each key is 4 (set)."
    any_store.set_limit(None, "export")
    seen = of_app(any_store).in_force("export")
    assert answers.in_force(seen, {}) == "export: the limit of each key is 3."


def test_a_keyed_semaphore_names_the_process_that_declared(store: MemoryStore) -> None:
    store.declare(ELSEWHERE, "celery@other")
    inspector = of_app(store)
    said = tables.whole(inspector.resource("export"), [], 10)
    assert said == (
        "export: 0 in use, 0 waiting, all keys together; limit of each key 3\n\n"
        "The limit in force is the smallest declared last for all keys: 3, by celery@other."
    )
    assert isinstance(store.acquire([Claim("export", "7", 3)], "t:1"), Permit)
    said = tables.whole(inspector.resource("export"), inspector.keys("export"), 10)
    assert said.startswith("export: 1 in use, 0 waiting, all keys together; limit of each key 3\n")
    assert "by celery@other." in said


def test_the_limit_of_the_app_is_no_limit_in_force(store: MemoryStore) -> None:
    """No worker ever started."""
    inspector = of_app(store)
    views = listed(inspector)
    assert [(each.limits, each.own_limit) for each in views.values()] == [((), 5), ((), 9)]
    assert rows(inspector)["api"].startswith("5 (not in force yet)  ")
    api = inspector.resource("api")
    assert (api.limit, api.own_limit, api.declared) == (None, 5, None)
    assert tables.resource(api).startswith(
        "api: 0 of 5 (not in force yet) in use, 0 waiting\n\nThe store knows no limit yet; the tasks of this"
    )
    assert answers.limit_told(api) == ("no limit is in force yet; the tasks of this app declare 5")
    assert inspector.resource("export/7").is_unknown


def test_a_key_in_use_without_a_limit_in_the_store(store: MemoryStore) -> None:
    store.pause("export/7")
    (key,) = of_app(store).keys("export")
    assert (key.limit, key.own_limit) == (None, 9)
    assert answers.limit_of(key) == "9 (not in force yet), paused"


def figures(store: Store) -> dict[tuple[str, ...], Any]:
    state = collect(store, BoundedLabel(), ["api", "export"], 100, lambda _: None)
    return {
        labels: value for metric, labels, value in state.figures() if metric.name.endswith("_limit")
    }


def test_metrics_have_the_limit_in_force_only(any_store: Store) -> None:
    assert figures(any_store) == {}
    any_store.declare(ELSEWHERE, "celery@other")
    any_store.set_limit(1, "api")
    assert figures(any_store) == {("api", "operator"): 1, ("export", "declared"): 3}
