"""How a Semaphore is written, and how not."""

import pytest
from celery import Celery

from celery_semaphore import LimitedTask, Semaphore, SemaphoreTimeout
from celery_semaphore.core.key import all_keys_of
from celery_semaphore.errors import ConfigurationError, SemaphoreError
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import occupied


class TestDecorator:
    def test_a_function(self, store: MemoryStore) -> None:
        @Semaphore("api", 1, store=store)
        def total(a: int, *, b: int = 1) -> int:
            """Adds."""
            return a + b + occupied(store)

        assert total(1, b=2) == 4
        assert (total.__name__, total.__doc__) == ("total", "Adds.")
        assert occupied(store) == 0

    def test_a_method(self, store: MemoryStore) -> None:
        class Client:
            @Semaphore("api", 1, store=store)
            def held(self) -> int:
                return occupied(store)

        assert Client().held() == 1


class TestWithoutLimit:
    def test_it_obeys_the_one_in_force(self, store: MemoryStore) -> None:
        stray = Semaphore("api", store=store, timeout=0)
        with Semaphore("api", 2, store=store):
            assert stray.available() == 1
            with stray, pytest.raises(SemaphoreTimeout, match="2 of 2 in use"):
                stray.acquire()

    def test_it_waits_in_a_pause(self, store: MemoryStore) -> None:
        with Semaphore("api", 2, store=store):
            store.pause("api")
        with pytest.raises(SemaphoreTimeout, match="paused"):
            Semaphore("api", store=store).acquire(timeout=0)

    def test_a_weight_above_it_is_told_who_declared_it(self, store: MemoryStore) -> None:
        heavy = Semaphore("api", 50, store=store, weight=3)
        store.declare({"api": 2}, "worker@b")
        with pytest.raises(
            SemaphoreTimeout, match="weight 3 is above the limit 2 in force, declared by worker@b"
        ):
            heavy.acquire(timeout=0)
        store.set_limit(1, "api")
        with pytest.raises(SemaphoreTimeout, match="the limit 1 in force, set by an operator"):
            heavy.acquire(timeout=0)

    def test_it_lifts_no_limit(self, store: MemoryStore) -> None:
        with (
            Semaphore("api", 1, store=store),
            pytest.raises(SemaphoreTimeout, match="1 of 1 in use"),
        ):
            Semaphore("api", 50, store=store).acquire(timeout=0)


class TestMistakes:
    def test_a_limit_of_zero_pauses(self, store: MemoryStore) -> None:
        with pytest.raises(SemaphoreTimeout, match="paused"):
            Semaphore("api", 0, store=store, weight=3).acquire(timeout=0)

    def test_no_limit_is_given_or_known(self, store: MemoryStore) -> None:
        stray = Semaphore("api", key="7", store=store)
        for ask in (stray.acquire, stray.available):
            with pytest.raises(SemaphoreError, match=r"no limit is known yet for semaphore 'api'"):
                ask()
        assert store.snapshot("api/7").waiting == 0

    def test_what_sets_a_limit_that_is_not_known(self) -> None:
        """The command refuses a name that is not known to its app, either."""
        app = Celery("shop", broker="amqp://", set_as_current=False)
        app.conf.semaphore_url = "memory://"
        for name, key in (("api", None), ("export", "{order}")):

            @app.task(base=LimitedTask, semaphore=name, key=key, limit=5, name=name, shared=False)
            def _(order: int) -> None: ...

        with pytest.raises(SemaphoreError, match=r"semaphore limit api N`\.$"):
            Semaphore("api", app=app).acquire(timeout=0)
        with pytest.raises(SemaphoreError, match=r"semaphore limit 'only here' N --force`\.$"):
            Semaphore("only here", app=app).acquire(timeout=0)
        with pytest.raises(SemaphoreError, match=r"its tasks use it with one, so give key=\.$"):
            Semaphore("export", app=app).acquire(timeout=0)

    def test_a_semaphore_whose_limit_is_declared_for_its_keys(self, store: MemoryStore) -> None:
        """The store knows it, whatever tasks this process knows."""
        store.declare({all_keys_of("export"): 2}, "celery@web")
        with pytest.raises(SemaphoreError, match="without a key: its tasks use it with one, so"):
            Semaphore("export", store=store).available()
        assert Semaphore("export", key="7", store=store).available() == 2

    def test_the_store_of_an_app(self) -> None:
        """Its settings may be made after the semaphore."""
        app = Celery("shop", broker="amqp://", set_as_current=False)
        one, other = (Semaphore("api", 1, app=app, timeout=0) for _ in range(2))
        with pytest.raises(ConfigurationError, match="semaphore_url"):
            one.acquire()
        app.conf.update(semaphore_url="memory://", semaphore_lease=60)
        with one as permit, pytest.raises(SemaphoreTimeout):
            other.acquire()
        assert permit.expires_at - permit.acquired_at == 60

    def test_one_store_for_one_url(self) -> None:
        url = "memory://one"
        with (
            Semaphore("api", 1, url=url),
            Semaphore("api", 1, url=url, lease=20, timeout=0),
            Semaphore("api", 1, url=url, prefix="mine", timeout=0),
            pytest.raises(SemaphoreTimeout),
            Semaphore("api", 1, url=url, timeout=0),
        ):
            pass
