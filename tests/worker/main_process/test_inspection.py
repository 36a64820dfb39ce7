"""What a worker says of the tasks with permits and of those that it keeps."""

from __future__ import annotations

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.worker.keeping.kept_message import KeptMessage
from celery_semaphore.worker.main_process.inspection import expected_turns
from tests.worker.requests import kept_for


def kept(name: str, *semaphores: str) -> KeptMessage:
    claims = tuple(Claim(each, None, 1) for each in semaphores)
    wait = HeldWait(Ticket(name, 0, 1795325987266815), claims)
    return kept_for(None, wait.ticket, due=0.0, keep_until=0.0, expected=30.0, wait=wait)


def test_turns_are_expected_as_the_store_says() -> None:
    """One that was not asked for yet is expected as when it was refused."""
    line = [kept("a", "api"), kept("b", "api")]
    assert list(expected_turns(line, {"a": 2.0})) == [2.0, 30.0]


def test_behind_one_whose_turn_nobody_knows_nobody_knows_it() -> None:
    """The semaphore is paused; of a long line the store is asked for the first ones alone."""
    line = [kept("a", "api"), kept("b", "api"), kept("c", "gpu"), kept("d", "api", "gpu")]
    told = {"a": None, "b": 12.0, "c": 3.0}
    assert list(expected_turns(line, told)) == [None, None, 3.0, 30.0]


def test_what_no_store_was_asked_for_runs_when_it_is_due() -> None:
    refused = kept_for(None, None, due=7.0, keep_until=9.0, expected=30.0)
    assert list(expected_turns([refused], {})) == [7.0]
