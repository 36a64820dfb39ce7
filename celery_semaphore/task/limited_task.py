"""LimitedTask: the task class that acquires a permit before its body, and releases it after."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, cast

from celery import Celery, Task

from ..errors import ConfigurationError, SemaphoreError
from .before_start import BeforeStart
from .call_options import KEY, WEIGHT, check_options, refuse_unknown, take_up_options
from .celery_types import CeleryTask
from .hidden_url import hide_url
from .options import Options
from .running import limited, permit_of, with_acquire
from .steps import add_steps, watch_starts
from .unlimited import why_unlimited

if TYPE_CHECKING:
    from ..worker.pool_process.permit import TaskPermit
    from .protocols import BoundTask, Trace

# A name, so that a process that only sends tasks does not import the worker's code.
REQUEST = "celery_semaphore.worker.main_process.request:LimitedRequest"

# Two threads may be the first to use a task: the second finds it when the first has not limited it yet.
_bound = threading.Condition()
BOUND_S = 1.0  # a task that is not bound by then never will be

hide_url()
watch_starts()
take_up_options()


class LimitedTaskMixin(CeleryTask):
    """Adds the options of a limited task; put it before a task class of your own.

    A task without ``semaphore`` is left as it is. Direct calls are never limited, nor are the bodies of ``map``,
    ``starmap`` and ``chunks``, and errbacks that Celery calls in place.
    """

    semaphore: Any = None  # a name, or a list of Limit(...) to hold all at once
    limit: Any = None  # the weight that may run at once; a number, or a callable
    key: Any = None  # "{tenant_id}" or a callable: each key has a limit of its own
    weight: Any = 1  # how much of the limit one task takes; a number, or a callable
    on_saturated: str | None = None  # "wait", "park", "requeue", "drop" or "fail"
    on_lost: str | None = None  # "warn" or "terminate"
    wait_timeout: float | None = None  # seconds; of the whole wait
    requeue_delay: float | None = None  # seconds; the shortest countdown
    requeue_max_delay: float | None = None  # seconds; the longest countdown

    semaphore_options: Options | None = None  # the checked options, once Celery has bound the task
    semaphore_fault: ConfigurationError | None = None  # or the error that the check raised

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise for a class in which Celery's methods go before ours."""
        super().__init_subclass__(**options)
        _refuse_late_mixin(cls)

    @classmethod
    def bind(cls, app: Celery) -> Celery:
        """Bind the task to its app; raise for one that was made with ``base=LimitedTaskMixin``."""
        if not issubclass(cls, Task):
            cls.semaphore_fault = error = ConfigurationError(_no_task(cls))
            add_steps(app)
            raise error
        return super().bind(app)

    @classmethod
    def on_bound(cls, app: Celery) -> None:
        """Check the options, and limit the task if they say so. Celery calls this twice."""
        super().on_bound(app)
        with _bound:
            if "semaphore_options" not in cls.__dict__:
                cls._limit(app)
            _bound.notify_all()

    @classmethod
    def _limit(cls, app: Celery) -> None:
        try:
            options = Options.of(cls)
        except ConfigurationError as error:
            # The code that makes Celery bind its tasks may swallow this error, as Django's checks do. Then the worker's
            # first step raises it again, and so does each call of this task.
            cls.semaphore_fault = error
            cls.semaphore_options = None
            add_steps(app)
            raise
        if options is not None:
            cls.Request = REQUEST if cls.Request == Task.Request else limited(cls.Request)
            # Wrap it, so that a subclass that forgets super() is limited all the same.
            cls.before_start = BeforeStart(cls.before_start)
            add_steps(app)
        cls.semaphore_options = (
            options  # at last: a thread that finds them takes the task for limited
        )

    @property
    def permit(self) -> TaskPermit | None:
        """The permit of the running task; None if it is not limited, or was called directly."""
        return permit_of(self.request)

    @property
    def __trace__(self) -> Trace | None:
        """The function that Celery builds for each task, and calls to run it."""
        return self.__dict__.get("semaphore_trace")

    @__trace__.setter
    def __trace__(self, trace: Trace | None) -> None:
        if trace is not None and self.semaphore_options is not None:
            trace = with_acquire(cast("BoundTask", self), trace)
        self.__dict__["semaphore_trace"] = trace

    def apply_async(
        self,
        args: Any = None,
        kwargs: Any = None,
        *positional: Any,
        semaphore_key: str | None = None,
        semaphore_weight: int | None = None,
        **options: Any,
    ) -> Any:
        """Send the task, as Celery does; ``semaphore_key`` and ``semaphore_weight`` are for this call only."""
        self._say(options, semaphore_key, semaphore_weight)
        return super().apply_async(args, kwargs, *positional, **options)

    def apply(
        self,
        args: Any = None,
        kwargs: Any = None,
        *positional: Any,
        semaphore_key: str | None = None,
        semaphore_weight: int | None = None,
        **options: Any,
    ) -> Any:
        """Run the task here, as Celery does; ``semaphore_key`` and ``semaphore_weight`` are for this call only."""
        self._say(options, semaphore_key, semaphore_weight)
        return super().apply(args, kwargs, *positional, **options)

    def _say(self, options: dict[str, Any], key: str | None, weight: int | None) -> None:
        if self.semaphore is not None and self.semaphore_options is None:
            with _bound:
                _bound.wait_for(lambda: self.semaphore_options or self.semaphore_fault, BOUND_S)
        if self.semaphore_fault is not None:
            raise self.semaphore_fault
        if self.semaphore is not None and self.semaphore_options is None:
            raise ConfigurationError(why_unlimited(cast("BoundTask", self)))
        refuse_unknown(self.name, options)
        given = {KEY: key, WEIGHT: weight}
        if ours := {name: value for name, value in given.items() if value is not None}:
            self._check(key, weight)
            options["headers"] = {**(options.get("headers") or {}), **ours}

    def _check(self, key: object, weight: object) -> None:
        try:
            check_options(
                self.semaphore_options.limits if self.semaphore_options else (), key, weight
            )
        except SemaphoreError as error:
            msg = f"task {self.name}: {error}"
            raise SemaphoreError(msg) from None


def _refuse_late_mixin(cls: type) -> None:
    mro = cls.__mro__
    if Task not in mro or mro.index(Task) > mro.index(LimitedTaskMixin):
        return
    late = [base for base in cls.__bases__ if not issubclass(base, Task)]
    bases = sorted(cls.__bases__, key=lambda base: base not in late)
    first, named = mro[1].__name__, ", ".join(base.__name__ for base in bases)
    msg = (
        f"class {cls.__qualname__}: its tasks would not be limited, since the methods of {first} go before those"
        f" of LimitedTaskMixin. Put the mixin first: class {cls.__name__}({named})."
    )
    raise ConfigurationError(msg)


def _no_task(cls: type[LimitedTaskMixin]) -> str:
    return (
        f"task {cls.name}: base=LimitedTaskMixin is not a task class, only a part of one. Write base=LimitedTask, or put"
        " the mixin before a task class of your own: class MyLimitedTask(LimitedTaskMixin, MyTask)."
    )


def _base() -> Any:
    """Return Celery's task class; with Django, its subclass that has ``delay_on_commit``."""
    if os.environ.get("DJANGO_SETTINGS_MODULE"):
        from celery.contrib.django.task import DjangoTask

        return DjangoTask
    return Task


class LimitedTask(LimitedTaskMixin, _base()):  # type: ignore[misc] # Celery ships no types
    """A task class with limits: ``@app.task(base=LimitedTask, semaphore="api", limit=5)`` runs at most five at once."""

    abstract = True
