"""Names: no two collide, whatever a tenant calls itself."""

from __future__ import annotations

import itertools

import pytest

from celery_semaphore.core.key import names_of, resource_name
from celery_semaphore.core.key_template import KeyTemplate
from celery_semaphore.errors import ConfigurationError

HOSTILE = [
    *[
        "",
        " ",
        "a",
        "A",
        "a b",
        "{a}",
        "a/b",
        "a:b",
        "a~b",
        "%",
        "%41",
        "a\x00",
        "\n",
        "é",
        "e\u0301",
    ],
    *["\ud800", "\udfff", "x" * 128, "x" * 129, "x" * 10_000, "x" * 10_001, "名前", "'", '"', "\\"],
]


def test_no_two_names_collide() -> None:
    pairs = list(itertools.product([s for s in HOSTILE if s], [None, *HOSTILE]))
    assert len({resource_name(*pair) for pair in pairs}) == len(pairs)


def test_names_can_be_read_back() -> None:
    for pair in itertools.product([s for s in HOSTILE if s], [None, *HOSTILE]):
        name = resource_name(*pair)
        assert "~" in name or names_of(name) == pair


@pytest.mark.parametrize("start", range(8))
def test_of_long_names_a_beginning_can_be_read_back(start: int) -> None:
    key = "x" * start + "名" * 100
    semaphore, begins = names_of(resource_name("s", key))
    assert semaphore == "s"
    assert begins is not None
    assert begins.startswith("x" * start + "名名名")


def test_a_digest_cannot_be_forged() -> None:
    """A key that spells what a long key is kept as, is another key."""
    name = resource_name("s", "x" * 500)
    assert resource_name("s", name.removeprefix("s/")) != name


@pytest.mark.parametrize("key", HOSTILE)
def test_names_are_printable_and_bounded(key: str) -> None:
    name = resource_name("semaphore", key)
    assert name.isascii()
    assert name.isprintable()
    assert not set(name) & set(" {}:*?[]\\")
    assert len(name) < 300


def test_long_names_keep_a_readable_beginning() -> None:
    assert resource_name("s", "tenant-" * 100).startswith("s/tenant-tenant-")


def test_template_renders() -> None:
    template = KeyTemplate("{order[region]}:{day!r:>5}")
    assert template.names() == {"order", "day"}
    assert template.render({"order": {"region": "eu"}, "day": 7}) == "eu:    7"


@pytest.mark.parametrize("text", ["{", "a}", "fixed", "", "{}", "{0}", "{}{a}"])
def test_templates_without_named_arguments_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        KeyTemplate(text).names()
