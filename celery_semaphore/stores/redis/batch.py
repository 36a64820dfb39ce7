"""Make several calls of ``acquire`` and ``release`` in one round trip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import redis

from ...core.store import Acquire
from ...errors import SemaphoreError
from ..encoding import ResourceClaim, check_holder, name_of, resource_claims
from ..one_by_one import made
from . import answers, scripts
from .questions import acquisition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...core.message_id import MessageId
    from ...core.refusal import Answer
    from ...core.store import HandedOn, Release, Store
    from .hand_on import HandOn
    from .runner import Call, Runner
    from .scripts import Script


class Batch:
    """Makes these calls through a runner; one that the server refused is made again by itself, through the store.

    Then its error says why, and no other call suffers from it.
    """

    def __init__(
        self,
        store: Store,
        runner: Runner,
        hand_on: HandOn,
        key_of: Callable[[list[ResourceClaim], MessageId | None], tuple[int, bytes]],
    ) -> None:
        self._store = store
        self._runner = runner
        self._hand_on = hand_on
        self._key_of = key_of

    def answers(
        self, calls: Sequence[Acquire | Release]
    ) -> list[Answer | HandedOn | SemaphoreError]:
        found: dict[int, Answer | HandedOn | SemaphoreError] = {}
        asked: dict[int, tuple[Script, Call]] = {}
        for n, call in enumerate(calls):
            try:
                asked[n] = self._asked(call)
            except SemaphoreError as error:
                found[n] = error
        said = self._runner.run_mixed(list(asked.values()))
        for (n, (_, (wanted, *_))), answer in zip(asked.items(), said, strict=True):
            found[n] = self._read(calls[n], wanted, answer)
        return [found[n] for n in range(len(calls))]

    def _read(
        self,
        call: Acquire | Release,
        wanted: list[ResourceClaim],
        answer: list[Any] | redis.RedisError,
    ) -> Answer | HandedOn | SemaphoreError:
        if isinstance(answer, redis.RedisError):
            return made(self._store, call)
        try:
            if isinstance(call, Acquire):
                return answers.permit_or_refusal(call.claims, wanted, call.holder, answer)
            return self._hand_on.handed_on(wanted, answer)
        except SemaphoreError as error:
            return error

    def _asked(self, call: Acquire | Release) -> tuple[Script, Call]:
        wanted = resource_claims(call.claims)
        if not isinstance(call, Acquire):
            return scripts.RELEASE, (wanted, [name_of(call.holder)])
        check_holder(call.holder, call.message_id)
        words = acquisition(call.claims, wanted, call.holder, call.wait, call.message_id)
        return scripts.ACQUIRE, (wanted, words, self._key_of(wanted, call.message_id))
