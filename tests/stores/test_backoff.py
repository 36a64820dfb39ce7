"""Calls leave out what was in vain lately, and try it again."""

from celery_semaphore.stores.redis.backoff import Backoff


def left_out(backoff: Backoff, *, sufficed: bool) -> int:
    """Return how many calls go before a try, which then suffices or not."""
    count = 0
    while not backoff.is_due():
        count += 1
    backoff.note(sufficed=sufficed)
    return count


def test_after_each_one_in_vain_twice_as_many_go_without() -> None:
    backoff = Backoff()
    found = [left_out(backoff, sufficed=False) for _ in range(10)]
    assert found == [0, 1, 2, 4, 8, 16, 32, 64, 64, 64]


def test_one_that_suffices_ends_that() -> None:
    backoff = Backoff()
    for _ in range(4):
        left_out(backoff, sufficed=False)
    assert [left_out(backoff, sufficed=n != 2) for n in range(4)] == [8, 0, 0, 1]


def test_the_first_calls_may_go_without() -> None:
    assert left_out(Backoff(left_out=3), sufficed=True) == 3
