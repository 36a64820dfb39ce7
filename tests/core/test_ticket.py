"""The text of a ticket, and the three fields that it writes."""

import pytest

from celery_semaphore.core.names import LONGEST_NAME
from celery_semaphore.core.ticket import Ticket

PLACE = 1_700_000_000_000_000


@pytest.mark.parametrize("nonce", ["id:1f", "a.b.c", "a\nb", "ключ", " ", "x" * LONGEST_NAME])
@pytest.mark.parametrize("priority", [0, 9, 255])
def test_the_text_is_read_as_it_was_written(nonce: str, priority: int) -> None:
    ticket = Ticket(nonce, priority, PLACE)
    assert Ticket.parse(ticket.text) == ticket


def test_what_the_text_looks_like() -> None:
    """Messages that wait with a broker carry it, across releases."""
    assert Ticket("id:1f", 9, 42).text == "246.0000000000000042.id:1f"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "x",
        "255.12.b",
        "a" * 10_000,
        "255.x\x00",
        "\udc80",
        "256.1700000000000000.b",
        "25.1700000000000000.b",
        "255.1700000000000000.",
        "255.170000000000000x.b",
        "٢٥٥.1700000000000000.b",
        "255.1700000000000000." + "x" * (LONGEST_NAME + 1),
        "255.1700000000000000." + "é" * (LONGEST_NAME // 6 + 1),
    ],
)
def test_what_no_store_has_written(text: str | None) -> None:
    assert Ticket.parse(text) is None


def test_a_line_is_sorted_by_priority_then_place_then_nonce() -> None:
    first, *others = line = [
        Ticket("z", 255, PLACE),
        Ticket("b", 9, PLACE),
        Ticket("c", 9, PLACE),
        Ticket("a", 9, PLACE + 1),
        Ticket("a", 0, 0),
    ]
    mixed = [*others, first]
    assert sorted(mixed, key=lambda each: each.rank) == line
    assert sorted(each.text for each in mixed) == [each.text for each in line]
