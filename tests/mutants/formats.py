"""Wrong ideas about messages that a later release wrote. Those about stores are beside the others about stores."""

from __future__ import annotations

from .mutant import Mutant

FORMATS = "tests/worker/messages/test_formats.py"
GATE = "tests/worker/pool_process/test_gate.py"


def formats(name: str, why: str, file: str, text: str, instead: str, *tests: str) -> Mutant:
    package = "" if file.startswith("core/") else "worker/"
    file = f"celery_semaphore/{package}{file}.py"
    return Mutant(
        f"formats/{name}", why, file, text, instead, tuple(f"{FORMATS}::{test}" for test in tests)
    )


MUTANTS = (
    formats(
        "a newer header is written anew",
        "the ticket is all that matters, and it has none",
        "messages/ticket_header",
        "    if before and before.is_newer:\n",
        "    if before and before.is_newer and ticket:\n",
        "test_a_newer_header_is_passed_on",
    ),
    formats(
        "a newer header goes back as it came",
        "nothing in it is ours to change; then all copies are one message",
        "messages/ticket_header",
        'return f"{before.format} {delivery}.{before.number + attempt} {before.rest}"',
        'return f"{before.format} {before.message} {before.rest}"',
        "test_a_newer_header_is_passed_on",
    ),
    formats(
        "a newer header is a foreign one",
        "no worker of this release wrote it",
        "messages/ticket_header",
        "        return carried is not None\n",
        "        return carried is not None and not carried.is_newer\n",
        "test_a_newer_header_is_no_foreign_one",
    ),
    formats(
        "the store may be asked for whatever came",
        "a ticket is a text",
        "pool_process/gate",
        'check_format("its header", headers.format)',
        'check_format("its header", 0)',
        "test_a_message_with_a_newer_header_waits",
    ),
    formats(
        "a store of a newer format is out of reach",
        "it refuses this release",
        "main_process/bootstep",
        "        with suppress(NewerFormat):  # the check has warned of it\n",
        "        with suppress():\n",
        "test_a_store_of_a_newer_format",
    ),
    Mutant(
        "formats/a store of a newer format may have admitted the task",
        "it gave an error instead of an answer",
        "celery_semaphore/worker/pool_process/gate.py",
        "        if isinstance(error, NewerFormat):  # A1: nothing was acquired\n",
        "        if False:\n",
        (f"{GATE}::test_a_store_of_a_newer_format_leaves_nothing_to_release",),
    ),
    Mutant(
        "formats/what a store of a newer format did not admit is released",
        "a release more does no harm",
        "celery_semaphore/worker/pool_process/gate.py",
        "            del task.request.__dict__[PENDING_RELEASE]\n",
        "",
        (f"{GATE}::test_a_store_of_a_newer_format_leaves_nothing_to_release",),
    ),
    formats(
        "what was put back forgets how it came",
        "the refusal has the ticket",
        "messages/put_back",
        "self.ticket, request.refusals, came)",
        "self.ticket, request.refusals)",
        "test_a_message_with_a_newer_header_waits",
    ),
    formats(
        "a newer payload is sent as far as it is known",
        "what is new is only added",
        "messages/parked",
        'check_format("its message", rest.pop("format", FORMAT))',
        '_ = check_format, rest.pop("format", FORMAT), rest.pop("later", None)',
        "test_a_newer_parked_message_stays_in_the_store",
    ),
    formats(
        "what cannot be read is done with",
        "it was taken out of the outbox",
        "messages/bring_back",
        '            _warnings.warn(f"format {error.found}", f"a parked task stays in the store: {error}")\n',
        "            yield grant, Parked('celery', 'celery', 0, {}, {}, None, None, b'')\n",
        "test_a_newer_parked_message_stays_in_the_store",
    ),
    formats(
        "a newer header goes round at one pace",
        "the upgrade is over in a minute; or nobody upgrades",
        "pool_process/refusal",
        "policy.unanswered(max(headers.number - 1, 0))",
        "policy.unanswered()",
        "test_what_only_a_newer_worker_can_run_comes_ever_more_slowly",
    ),
    formats(
        "each delivery counts anew",
        "its number only tells its messages apart",
        "messages/ticket_header",
        "{before.number + attempt}",
        "{attempt}",
        "test_what_only_a_newer_worker_can_run_comes_ever_more_slowly",
    ),
    formats(
        "the number of a name has any length",
        "a sender outside may write any; a float has no such power of two",
        "core/wait_policy",
        "2.0 ** min(before, DOUBLINGS)",
        "2.0**before",
        "test_what_only_a_newer_worker_can_run_comes_ever_more_slowly",
    ),
    formats(
        "each message of a newer format is a warning",
        "each task waits",
        "pool_process/refusal",
        '_warnings.warn(f"format {error.found}", said)',
        "logger.warning(said)",
        "test_what_only_a_newer_worker_can_run_comes_ever_more_slowly",
    ),
    formats(
        "each parked message of a newer format is a warning",
        "each task waits",
        "messages/bring_back",
        '_warnings.warn(f"format {error.found}", f"a parked',
        'logger.warning(f"a parked',
        "test_a_newer_parked_message_stays_in_the_store",
    ),
)
