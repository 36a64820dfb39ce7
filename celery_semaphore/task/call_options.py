"""Take up the options of a call, ``semaphore_key`` and ``semaphore_weight``, which travel as headers of its message.

``apply_async`` of a limited task checks them and raises. ``send_task`` and signatures by name know no task, and
Celery would make each unknown option a property of the message: Redis carries it along, RabbitMQ drops it. So a
receiver of ``before_task_publish`` makes a header of it. Celery only logs the errors of receivers: the worker checks
the headers, and fails a task with a misspelt one. That is also what a sender without this library needs, which sets
the header itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any

from celery.signals import before_task_publish

from ..core.key_template import is_template
from ..core.spelling import nearest
from ..errors import SemaphoreError

KEY = "semaphore_key"  # the header of the key that a call gave to apply_async
WEIGHT = "semaphore_weight"  # of the weight, likewise
BEGINS = "sem"  # no option and no header of Celery does
OPTIONS = (KEY, WEIGHT)
LONGEST_MISSPELT = 2 * len(WEIGHT)  # characters; what is longer is less alike
SUFFIX_ALIKE = 0.6  # "kye" for "key"; a header of a later release is less alike


def take_up_options() -> None:
    """Let each message that this process sends carry the options that its call gave to ``send_task``."""
    before_task_publish.connect(_take_up, dispatch_uid="celery_semaphore.task.call_options")


def _take_up(headers: dict[str, Any], properties: dict[str, Any], **_: Any) -> None:
    for name in [name for name in properties if name.startswith(BEGINS)]:
        headers.setdefault(name, properties.pop(name))


def refuse_unknown(task: str, options: Iterable[str]) -> None:
    """Raise for a misspelt option: Celery would make it a property of the message, without any effect."""
    for name in options:
        if name.startswith(BEGINS):  # a cheap check, as each call runs it
            meant = nearest(name, OPTIONS, alike=0.0)
            msg = f"task {task}: {name}= is not an option of a call; did you mean {meant}=?"
            raise SemaphoreError(msg)


def refuse_misspelt(headers: Iterable[str]) -> None:
    """Raise for a header that seems to be a misspelt option: its task would run under the key of all others."""
    for name in headers:
        if not name.startswith(BEGINS) or name in OPTIONS or len(name) > LONGEST_MISSPELT:
            continue
        if (meant := _meant_by(name)) is not None:
            msg = (
                f"its message has the header {name}, which is not an option of a call;"
                f" did you mean {meant}?"
            )
            raise SemaphoreError(msg)


# A comparison takes longer than an acquire, and each delivery has the same few headers.
@lru_cache(maxsize=256)
def _meant_by(name: str) -> str | None:
    meant, suffix = nearest(name, OPTIONS), name.partition("_")[2]
    if meant and nearest(suffix, ("key", "weight"), alike=SUFFIX_ALIKE):
        return meant
    return None


def check_options(limits: Collection[object], key: object, weight: object) -> None:
    """Raise for options of a call that this task cannot have, or that have wrong values."""
    if key is None and weight is None:
        return
    if len(limits) != 1:
        msg = "semaphore_key and semaphore_weight need a task with one semaphore."
        raise SemaphoreError(msg)
    if key is not None and not isinstance(key, str):
        msg = f"semaphore_key={key!r} must be a string."
        raise SemaphoreError(msg)
    if key is not None and is_template(key):
        msg = (
            f"semaphore_key={key!r} would be used literally. Give the key itself, as in"
            " semaphore_key=str(tenant_id), or leave it out: key= of the task is the template."
        )
        raise SemaphoreError(msg)
    if weight is not None and (
        isinstance(weight, bool) or not isinstance(weight, int) or weight < 1
    ):
        msg = f"semaphore_weight={weight!r} must be a whole number, 1 or more."
        raise SemaphoreError(msg)
