"""Greenlets wait beside each other, in the pools that have them."""

from tests.support.greenlets import GreenletPool, greenlets
from tests.support.postgres import PostgresServer

ASK = """
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
link = store_from_url({url!r}, StoreOptions(timeout=10.0))._link
def ask():
    return link.ask(lambda connection: connection.query("SELECT pg_sleep(0.5)"))
ask()
"""


@greenlets
def test_none_holds_up_the_others(postgres: PostgresServer, pool: GreenletPool) -> None:
    assert pool.seconds_of_eight(ASK.format(url=postgres.url)) < 8 * 0.5
