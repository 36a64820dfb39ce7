"""Test answers that are lost on their way, the same with each server."""

from collections.abc import Callable

import pytest

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.store import Store
from celery_semaphore.errors import StoreUnavailable
from tests.support.proxy import Proxy
from tests.support.server import Server

from .conftest import claim, park, permit_of


class LostAnswers:
    """Asks a store through a proxy; `cut_off` is that store."""

    @pytest.fixture
    def proxy(self, server: Server, start_proxy: Callable[[int], Proxy]) -> Proxy:
        return start_proxy(server.port)

    def test_an_acquire_is_repeated(self, proxy: Proxy, cut_off: Store) -> None:
        proxy.drop_answers()
        permit_of(cut_off.acquire(claim(2), "a"))
        assert proxy.answers_dropped == 1
        assert cut_off.snapshot("api").occupied == 1

    def test_a_repeated_release_says_again_what_it_handed_on(
        self, proxy: Proxy, cut_off: Store
    ) -> None:
        cut_off.acquire(claim(), "a")
        park(cut_off, "b")
        proxy.drop_answers()
        outgoing = cut_off.release("a", claim()).outgoing
        assert [grant.payload for grant in cut_off.take(outgoing)] == [b"b"]
        assert proxy.answers_dropped == 1

    def test_a_renewal_is_repeated(self, proxy: Proxy, cut_off: Store) -> None:
        permits = [permit_of(cut_off.acquire(claim(3), holder)) for holder in "abc"]
        proxy.drop_answers()
        assert set(cut_off.renew(permits).values()) == {Renewal.OK}

    def test_a_server_out_of_reach(self, proxy: Proxy, cut_off: Store) -> None:
        proxy.cut()
        with pytest.raises(StoreUnavailable):
            cut_off.acquire(claim(), "a")
        proxy.restore()
        permit_of(cut_off.acquire(claim(), "b"))
