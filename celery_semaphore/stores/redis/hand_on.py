"""Continue a hand-on until it is done, over as many calls as it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.store import HandedOn
from ..encoding import ROUNDS, ResourceClaim
from . import answers, scripts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.store import Outgoing
    from .connection import Word
    from .runner import Call, Runner

NONE = frozenset[str]()
NOTHING = HandedOn()


class HandOn:
    """Makes the calls that hand permits on through a runner."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def reap_all(self, names: list[str]) -> Outgoing:
        calls: list[Call] = [([ResourceClaim(name, 0, 0)], ()) for name in names]
        return self.all_handed_on(calls, self._runner.run_all(scripts.REAP, calls))

    def all_handed_on(self, calls: list[Call], said: Sequence[list[Any] | None]) -> Outgoing:
        answered = zip(calls, said, strict=True)
        handed = (self.handed_on(call[0], answer).outgoing for call, answer in answered if answer)
        return frozenset().union(*handed)

    def end(self, names: Sequence[str]) -> Outgoing:
        """Find where the messages are parked, then end their waits there; repeat for those that moved meanwhile."""
        outgoing: Outgoing = frozenset()
        before: list[bytes | None] = []
        for _ in range(ROUNDS):
            _, found = self._runner.run(scripts.FIND, [], names)
            if found == before or not any(found):
                break  # those that are left were granted, and are on their way
            before = found
            nonces: dict[str, list[Word]] = {}
            for place in filter(None, found):
                resource, _, nonce = answers.text(place).partition("\n")
                nonces.setdefault(resource, []).append(nonce)
            calls = [([ResourceClaim(name, 0, 0)], words) for name, words in nonces.items()]
            for (wanted, _), answer in zip(
                calls, self._runner.run_all(scripts.END, calls), strict=True
            ):
                outgoing |= self.handed_on(wanted, answer).outgoing
        return outgoing

    def handed_on(self, wanted: list[ResourceClaim], answer: list[Any]) -> HandedOn:
        """Continue the hand-on until it is done; return what all its calls handed on.

        A head with claims on other resources is tried in a call that declares them all.
        """
        outgoing, granted = NONE, NONE
        for _ in range(ROUNDS):
            if len(answer) == 1:  # there is no wait
                break
            _, again, needed, names, nonces = answer
            outgoing |= {name.decode() for name in names}
            granted |= set(map(answers.text, nonces))
            if not (again or needed):
                break
            more = {claim.resource: claim for claim in wanted}
            more |= {name.decode(): ResourceClaim(name.decode(), 0, 0) for name in needed}
            wanted = list(more.values())
            answer = self._runner.run(scripts.REAP, wanted)
        return HandedOn(outgoing, granted) if outgoing or granted else NOTHING
