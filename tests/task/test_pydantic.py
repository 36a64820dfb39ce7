"""A key of a model's attribute, in a task with ``pydantic=True``: Celery converts arguments only around the body.

Annotations are no texts here: Celery 5.5 does not read these.
"""

import sys
from types import ModuleType
from typing import Any, Self

import pytest
from celery import Celery

from celery_semaphore import LimitedTask, SemaphoreError


class BaseModel:
    """What Celery uses of pydantic's, which is not installed for these tests."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    @classmethod
    def model_validate(cls, value: Any, *, strict: bool, context: dict[str, Any]) -> Self:
        if not isinstance(value, dict) or (strict and not context.get("mine")):
            raise ValueError(value)
        return cls(**value)


class Order(BaseModel):
    tenant: str


@pytest.fixture(autouse=True)
def pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("pydantic")
    module.BaseModel = BaseModel  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pydantic", module)


def declare(app: Celery, body: Any, **options: Any) -> Any:
    common = {"base": LimitedTask, "semaphore": "s", "limit": 1, "name": "t", "shared": False}
    app.task(**common | {"pydantic": True, "key": "{order.tenant}:{n}"} | options)(body)
    app.finalize()
    return app.tasks["t"].semaphore_options


def plain(order: Order, n: int = 1) -> None: ...


def bound(self: Any, order: Order, n: int = 1) -> None: ...


def optional(order: Order | None = None, n: int = 1) -> None: ...


@pytest.mark.parametrize("body", [plain, bound, optional])
@pytest.mark.parametrize(
    ("args", "kwargs", "key"),
    [
        (({"tenant": "a"},), {}, "a:1"),
        ([{"tenant": "a"}, 2], {}, "a:2"),
        ((), {"order": {"tenant": "b"}, "n": 3}, "b:3"),
    ],
)
def test_a_key_of_an_attribute(app: Celery, body: Any, args: Any, kwargs: Any, key: str) -> None:
    options = declare(app, body, bind=body is bound)
    assert options.claims(args, kwargs)[0].key == key


def test_a_callable_gets_the_models_too(app: Celery) -> None:
    options = declare(app, plain, key=lambda order, n=1: order.tenant.upper())
    assert options.claims(({"tenant": "a"},), {})[0].key == "A"


def test_the_options_of_the_conversion_are_the_users(app: Celery) -> None:
    user = {"pydantic_strict": True, "pydantic_context": {"mine": 1}}
    assert declare(app, plain, **user).claims(({"tenant": "a"},), {})[0].key == "a:1"


def test_arguments_that_do_not_fit_fail_without_being_shown(app: Celery) -> None:
    options = declare(app, plain)
    said = r"^task t: the arguments do not fit the models of the task's parameters \(ValueError\)$"
    with pytest.raises(SemaphoreError, match=said):
        options.claims(("secret",), {})
    with pytest.raises(SemaphoreError, match="the call does not fit the task's parameters"):
        options.claims((), {})


def test_a_task_without_models_is_left_alone(app: Celery) -> None:
    assert declare(app, plain, pydantic=False, key="{n}").convert is None
