"""Permits in the project's MariaDB: CELERY_SEMAPHORE_URL = "django://..."."""

from __future__ import annotations

import json

import pytest

from tests.django.conftest import ENVIRONMENT
from tests.django.test_database import manage, run
from tests.support.mariadb import MariaServer

MIGRATE = ("migrate", "--database", "maria", "celery_semaphore")


@pytest.fixture
def env(mariadb_server: MariaServer) -> dict[str, str]:
    found = mariadb_server.new_database()
    own = {"MARIA_NAME": found["database"], "MARIA_PORT": str(found["port"])}
    return ENVIRONMENT | own | {"STORE": "django://maria"}


SHOP = """
import json, django
django.setup()
from django.db import connections, transaction
from celery_semaphore.core.claim import Claim
from celery_semaphore.stores import store_from_url

claims = [Claim("api", None, 2)]
mine, others = (store_from_url("django://maria") for _ in range(2))
try:
    with transaction.atomic(using="maria"):
        connections["maria"].cursor().execute("SELECT count(*) FROM celery_semaphore_document")
        mine.acquire(claims, "a:1")
        within = others.snapshot("api").occupied
        raise LookupError
except LookupError:
    pass
print(json.dumps([within, others.snapshot("api").occupied]))
"""


@pytest.mark.variants
def test_a_permit_is_no_part_of_the_users_transaction(env: dict[str, str]) -> None:
    refused = manage(env, "check", "--deploy", "--tag", "celery_semaphore", ok=False)
    assert "DATABASES['maria'] has no table 'celery_semaphore_document'" in refused
    manage(env, *MIGRATE)
    manage(env, *MIGRATE, "zero")
    manage(env, *MIGRATE)
    manage(env, "check", "--deploy", "--tag", "celery_semaphore")
    assert json.loads(run(env, "-c", SHOP).splitlines()[-1]) == [1, 1]
