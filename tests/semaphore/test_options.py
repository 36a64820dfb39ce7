"""How a Semaphore is written, and how not."""

from typing import Any

import pytest
from celery import Celery

from celery_semaphore import Semaphore, SemaphoreTimeout
from celery_semaphore.errors import ConfigurationError
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

    def test_what_runs_later(self, api: Semaphore) -> None:
        async def coroutine() -> None: ...

        async def asyncgen() -> Any:
            yield 1

        def generator() -> Any:
            yield 1

        for function in (coroutine, asyncgen, generator, "no function"):
            with pytest.raises(ConfigurationError, match="neither async nor generators"):
                api(function)  # type: ignore[arg-type]


class TestMistakes:
    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ({"limit": 1.5}, "limit=1.5"),
            ({"limit": True}, "limit=True"),
            ({"limit": -1}, "limit=-1"),
            ({"limit": "5"}, "limit='5'"),
            ({"weight": 0}, "weight=0"),
            ({"limit": 2**31}, "limit=2147483648 must be a whole number from 0 to 2147483647"),
            ({"limit": 2**70, "weight": 2**64}, "from 0 to 2147483647"),
            ({"limit": 2**31 - 1, "weight": 2**31}, "weight=2147483648 must"),
            ({"weight": 6}, "weight=6 is above limit=5"),
            ({"name": ""}, "name=''"),
            ({"name": 7}, "name=7"),
            ({"key": 7}, "key=7"),
            ({"timeout": -1}, "timeout=-1"),
            ({"timeout": "5"}, "timeout='5'"),
            ({"timeout": float("nan")}, "timeout=nan"),
            ({"store": None}, "one of app=, url= and store="),
            ({"store": None, "url": "memory://", "lease": "x"}, "lease='x'"),
            ({"lease": 0}, "lease=0"),
            ({"lease": float("nan")}, "lease=nan"),
            ({"url": "memory://"}, "one of app=, url= and store="),
            ({"app": Celery("shop", set_as_current=False)}, "one of app=, url= and store="),
            ({"store": None, "url": "mongo://x"}, "mongo"),
            ({"store": None, "app": "shop"}, "app='shop' must be a Celery app"),
            (
                {"store": None, "app": Celery("shop", set_as_current=False), "lease": 9},
                "are for url=",
            ),
            ({"store": None, "url": "redis://x/y"}, "redis://x/y"),
        ],
    )
    def test_told_at_once(self, store: MemoryStore, wrong: dict[str, Any], said: str) -> None:
        given: dict[str, Any] = {"name": "api", "limit": 5, "store": store} | wrong
        with pytest.raises(ConfigurationError, match=said):
            Semaphore(given.pop("name"), given.pop("limit"), **given)

    def test_a_wrong_timeout_of_a_call(self, api: Semaphore) -> None:
        with pytest.raises(ConfigurationError, match="timeout=-1"):
            api.acquire(timeout=-1)

    def test_a_limit_of_zero_pauses(self, store: MemoryStore) -> None:
        with pytest.raises(SemaphoreTimeout, match="paused"):
            Semaphore("api", 0, store=store, weight=3).acquire(timeout=0)

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
