"""Which table a URL names."""

from __future__ import annotations

from typing import Any

import pytest

from celery_semaphore.errors import ConfigurationError
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.dynamodb.url import Place, place_from_url
from celery_semaphore.stores.options import StoreOptions


def place(url: str, **options: Any) -> Place:
    return place_from_url(url, StoreOptions(**options))


def test_a_region_and_a_table() -> None:
    assert place("dynamodb://eu-west-1/permits") == Place("eu-west-1", "permits")
    assert place("dynamodb://us-gov-west-1/a.b_c-D/") == Place("us-gov-west-1", "a.b_c-D")


def test_without_a_table_the_prefix_names_it() -> None:
    assert place("dynamodb://eu-west-1").table == "celery-semaphore"
    assert place("dynamodb://eu-west-1/", prefix="shop").table == "shop"


def test_how_it_is_reached() -> None:
    given = {"endpoint_url": "http://127.0.0.1:1", "profile": "shop"}
    found = place("dynamodb://eu-west-1/permits", transport_options=given)
    assert (found.endpoint_url, found.profile) == ("http://127.0.0.1:1", "shop")
    assert str(found) == "table permits in eu-west-1 at http://127.0.0.1:1"


@pytest.mark.parametrize(
    "url",
    [
        "dynamodb://",
        "dynamodb:///permits",
        "dynamodb://eu-west-1/a",
        "dynamodb://eu-west-1/two words",
        "dynamodb://eu-west-1/permits/more",
        "dynamodb://eu-west-1/permits?endpoint_url=x",
        "dynamodb://localhost:8000/permits",
    ],
)
def test_all_else_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="does not have the form dynamodb://<region>"):
        place(url)


def test_a_key_of_aws_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="as boto3 finds it") as error:
        place("dynamodb://AKIA:secret@eu-west-1/permits")
    assert "secret" not in str(error.value)


def test_two_names_of_a_table_are_one_too_many() -> None:
    with pytest.raises(ConfigurationError, match="semaphore_prefix='shop' another one"):
        place("dynamodb://eu-west-1/permits", prefix="shop")


def test_an_option_that_is_not_known_is_said() -> None:
    """One of the broker, for instance."""
    with pytest.raises(ConfigurationError, match="'visibility_timeout'; for dynamodb://"):
        place("dynamodb://eu-west-1/permits", transport_options={"visibility_timeout": 5})


def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys  # noqa: PLC0415

    for name in [name for name in sys.modules if name.startswith("celery_semaphore.stores.dyn")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setitem(sys.modules, "boto3.session", None)
    with pytest.raises(ConfigurationError, match=r"celery-semaphore\[dynamodb\]"):
        store_from_url("dynamodb://eu-west-1/permits")
