"""Wrong ideas about which wait a ticket names."""

from __future__ import annotations

from dataclasses import replace

from .epochs import memory
from .lua import CONFORMED
from .mutant import Mutant
from .postgresql import postgresql

CONFORMANCE = "tests/stores/test_conformance.py::TestMemoryStore"


def nonces(name: str, why: str, file: str, text: str, instead: str, *tests: str) -> Mutant:
    return replace(memory(name, why, file, text, instead), tests=tests or (CONFORMANCE,))


TWO_GRANTS = ("-k", "two_grants")

MUTANTS = (
    postgresql(
        "any of two grants will do",
        "a wait has one grant",
        "v1/permits.sql",
        "        max(p.token), max(p.since), min(p.ends)\n",
        "        min(p.token), max(p.since), min(p.ends)\n",
        tests=(f"{CONFORMED}::TestPostgresStore", *TWO_GRANTS),
    ),
    nonces(
        "a wait stands where its text says",
        "the message carries priority and place",
        "acquisition",
        "            return known\n",
        "            return told or known\n",
    ),
    nonces(
        "what is in transit is promoted, too",
        "it comes back soon",
        "resource",
        "if each.nonce in nonces and not each.in_transit]",
        "if each.nonce in nonces]",
    ),
    nonces(
        "a message is attached where its text says",
        "the ticket was made a moment ago",
        "attach",
        "    ticket = before.ticket if before else ticket\n",
        "",
        CONFORMANCE,
        "-k",
        "attached_again",
    ),
    nonces(
        "a promoted ticket is another wait",
        "the texts differ",
        "messages",
        "told.nonce != carried.nonce",
        "told != carried",
        CONFORMANCE,
        "-k",
        "its_copy_does_not_run",
    ),
    nonces(
        "a grant is a permit of its name",
        "the names are the same",
        "release",
        "at.holders.pop(holder, None)",
        "at.holders.pop(holder, None) or at.grants.pop(holder, None)",
    ),
    nonces(
        "what a holder leaves takes its grant along",
        "nobody knows that it was handed anything",
        "release",
        "    return at is not None and at.tickets[holder].payload is None and not at.was_sent(holder)\n",
        "    return not at or at.tickets[holder].payload is None and not at.was_sent(holder)\n",
    ),
    nonces(
        "a call without a ticket begins a new wait",
        "it would carry one otherwise",
        "acquisition",
        "told.nonce if told else self.holder)",
        'told.nonce if told else "")',
        CONFORMANCE,
        "-k",
        "finds_its_ticket",
    ),
)
