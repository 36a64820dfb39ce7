"""Options: the limits that a task class declares, checked once when the task is bound."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from celery import Task

from ..core.call import Call
from ..core.claim import Claim
from ..core.limit import Limit
from ..core.seconds import positive
from ..core.wait_policy import OnSaturated, WaitPolicy
from ..errors import ConfigurationError, SemaphoreError
from .call_options import check_options
from .converter import converter_of
from .misspelt import misspelt

if TYPE_CHECKING:
    from ..settings import Settings
    from .protocols import DeclaredTask

MOST_LIMITS = 8  # a note to the main process lists them all, and must fit into one pipe write
ON_LOST = ("warn", "terminate")


Convert = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Options:
    """The limits of one task, and how its calls wait."""

    task: str
    limits: tuple[Limit, ...]
    signature: inspect.Signature
    on_saturated: str | None
    on_lost: str | None
    wait_timeout: float | None
    requeue_delay: float | None
    requeue_max_delay: float | None
    convert: Convert | None = None  # of the arguments to models, as of a task with pydantic=True

    @classmethod
    def of(cls, task: type[DeclaredTask]) -> Options | None:
        """Return the options of a task class; None when it is not limited.

        Raise a ``ConfigurationError`` that names the task, the option and its value.
        """
        _refuse_misspelt(task)
        if task.semaphore is None:
            _refuse_orphans(task)
            return None
        _refuse_strategy(task)
        try:
            return cls._read(task)
        except ConfigurationError as error:
            msg = f"task {task.name}: {error}"
            raise ConfigurationError(msg) from error

    @classmethod
    def _read(cls, task: type[DeclaredTask]) -> Options:
        signature = _signature(task)
        limits = _limits(task)
        for limit in limits:
            limit.check(signature)
        return cls(
            task.name,
            limits,
            signature,
            _one_of("on_saturated", task.on_saturated, tuple(OnSaturated)),
            _one_of("on_lost", task.on_lost, ON_LOST),
            _seconds("wait_timeout", task.wait_timeout),
            _seconds("requeue_delay", task.requeue_delay),
            _seconds("requeue_max_delay", task.requeue_max_delay),
            _converter(task),
        )

    @cached_property
    def _constant(self) -> tuple[Claim, ...] | None:
        """The claims of every call, if they are the same for all calls; else None."""
        if any(limit.depends_on_call for limit in self.limits):
            return None
        nothing = Call((), {}, {})
        return tuple(limit.claim(nothing) for limit in self.limits)

    def claims(
        self, args: Any, kwargs: Any, key: str | None = None, weight: int | None = None
    ) -> tuple[Claim, ...]:
        """Return the claims of this call; raise ``SemaphoreError`` with the reason if they cannot be made."""
        if key is None and weight is None and self._constant is not None:
            return self._constant
        try:
            check_options(self.limits, key, weight)
            call = self._call(*self._converted(args, kwargs))
            return tuple(limit.claim(call, key=key, weight=weight) for limit in self.limits)
        except SemaphoreError as error:
            msg = f"task {self.task}: {error}"
            raise SemaphoreError(msg) from error.__cause__

    def plain_claims(
        self, args: Any, kwargs: Any, key: str | None, weight: int | None, *, plain: bool
    ) -> tuple[Claim, ...] | None:
        """Return the claims of this call if no function of the user's makes them; else None.

        ``plain`` is whether the arguments are values of JSON. It raises ``SemaphoreError`` as ``claims``.
        """
        constant = key is None and weight is None and self._constant is not None
        calls = self.convert is not None or any(limit.has_function for limit in self.limits)
        return self.claims(args, kwargs, key, weight) if constant or (plain and not calls) else None

    def _converted(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the arguments as the body gets them."""
        if self.convert is None:
            return args, kwargs
        try:
            return self.convert(args, kwargs)
        except TypeError:  # of a call that does not fit, which is told next
            return args, kwargs
        except Exception as error:
            # Show only the error's type: its text may contain the task's arguments.
            msg = f"the arguments do not fit the models of the task's parameters ({type(error).__name__})"
            raise SemaphoreError(msg) from error

    def _call(self, args: Any, kwargs: Any) -> Call:
        try:
            return Call.bind(self.signature, args, kwargs)
        except TypeError as error:
            keys = [f"key={limit.key!r}" for limit in self.limits if isinstance(limit.key, str)]
            unmade = f"{' and '.join(keys)} cannot be made, for " if keys else ""
            msg = f"{unmade}the call does not fit the task's parameters: {error}"
            raise SemaphoreError(msg) from error

    def policy(self, settings: Settings) -> WaitPolicy:
        """Return how a call waits, with the defaults of the settings."""
        longest = min(self.requeue_max_delay or settings.requeue_max_delay, settings.longest_delay)
        return WaitPolicy(
            self.on_saturated_by(settings),
            min(self.requeue_delay or settings.requeue_delay, longest),
            longest,
            self.wait_timeout or settings.wait_timeout,
        )

    def on_saturated_by(self, settings: Settings) -> OnSaturated:
        """Return what happens to a call without a permit, with the default of the settings."""
        return OnSaturated(self.on_saturated or settings.on_saturated)

    def terminates(self, settings: Settings) -> bool:
        """Return whether a task that lost its permit is ended."""
        return (self.on_lost or settings.on_lost) == "terminate"


def _signature(task: type[DeclaredTask]) -> inspect.Signature:
    # The run of a task class is a plain function, with self as its first parameter. Of a decorated function Celery
    # makes a static method.
    run = inspect.getattr_static(task, "run")
    if isinstance(run, staticmethod):
        return inspect.signature(run.__func__)
    parameters = list(inspect.signature(run).parameters.values())
    return inspect.Signature(parameters[1:])


def _converter(task: type[DeclaredTask]) -> Convert | None:
    run = inspect.getattr_static(task, "run")
    is_bound = not isinstance(run, staticmethod)  # it takes the task itself first
    convert = converter_of(run if is_bound else run.__func__, getattr(task, "app", None))
    if convert is None:
        return None

    def converted(args: Any, kwargs: Any) -> tuple[Any, Any]:
        found, named = convert(*([task, *args] if is_bound else args), **kwargs)
        return (found[1:] if is_bound else found), named

    return converted


def _limits(task: type[DeclaredTask]) -> tuple[Limit, ...]:
    limit = inspect.getattr_static(task, "limit")
    key = _plain(inspect.getattr_static(task, "key"))
    weight = _plain(inspect.getattr_static(task, "weight"))
    if isinstance(task.semaphore, (list, tuple)):
        if (limit, key, weight) != (None, None, 1):
            msg = "with semaphore=[Limit(...), ...], put limit, key and weight into each Limit."
            raise ConfigurationError(msg)
        return _listed(tuple(task.semaphore))
    if isinstance(task.semaphore, Limit):
        msg = f"semaphore={task.semaphore!r} must be in a list, as in semaphore=[Limit(...)]."
        raise ConfigurationError(msg)
    if limit is None:
        msg = f"semaphore={task.semaphore!r} needs a limit, as in limit=5."
        meant = [str(each) for each in misspelt(task) if each.option == "limit"]
        raise ConfigurationError(" ".join([msg, *meant]))
    return (Limit(task.semaphore, _plain(limit), key, weight),)


def _listed(limits: tuple[Any, ...]) -> tuple[Limit, ...]:
    if not limits or not all(isinstance(limit, Limit) for limit in limits):
        msg = f"semaphore={list(limits)!r} must be a name, or a list of Limit(...)."
        raise ConfigurationError(msg)
    if len(limits) > MOST_LIMITS:
        msg = f"semaphore= lists {len(limits)} limits; a task can have {MOST_LIMITS}."
        raise ConfigurationError(msg)
    names = [limit.semaphore for limit in limits]
    if len(set(names)) < len(names):
        msg = f"semaphore= lists a name twice: {', '.join(sorted(names))}."
        raise ConfigurationError(msg)
    return limits


def _plain(option: Any) -> Any:
    """Return the function of ``key=function``; without ``staticmethod`` Python would make it a method."""
    return option.__func__ if isinstance(option, staticmethod) else option


def _one_of(option: str, value: object, known: tuple[str, ...]) -> str | None:
    if value is not None and value not in known:
        msg = f"{option}={value!r} is unknown; it must be one of {', '.join(map(repr, map(str, known)))}."
        raise ConfigurationError(msg)
    return value if value is None else str(value)


def _seconds(option: str, value: object) -> float | None:
    return None if value is None else positive(option, value)


def _refuse_misspelt(task: type[DeclaredTask]) -> None:
    for found in misspelt(task):
        if found.certain:
            msg = f"task {task.name}: {found}"
            raise ConfigurationError(msg)


def _refuse_orphans(task: type[DeclaredTask]) -> None:
    given: dict[str, Any] = {
        "limit": task.limit,
        "key": task.key,
        "on_saturated": task.on_saturated,
    }
    for option, value in given.items():
        if value is not None:
            msg = f"task {task.name}: {option}={value!r} does nothing without semaphore='a name'."
            raise ConfigurationError(msg)


def _refuse_strategy(task: type[DeclaredTask]) -> None:
    """Raise for a class that does not let Celery make a request of each message, such as ``Batches``.

    The bodies of celery-batches would run without the tracer, where a permit is acquired, and without the ends that
    release it.
    """
    if task.Strategy != Task.Strategy:
        named = getattr(task.Strategy, "__qualname__", repr(task.Strategy))
        msg = (
            f"task {task.name}: semaphore={task.semaphore!r} would not limit it: its class has a Strategy of its own,"
            f" {named}, which runs its messages past the step that acquires a permit. Drop semaphore= and use a"
            " Semaphore inside its body, or let it send tasks that are limited."
        )
        raise ConfigurationError(msg)
