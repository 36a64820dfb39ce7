"""Wrong ideas about the messages that Redis and PostgreSQL keep: copies, what ran, and the outbox."""

from __future__ import annotations

from .mutant import Group

lua = Group(
    "lua",
    "celery_semaphore/stores/redis/lua",
    ".lua",
    ("tests/stores/test_conformance.py::TestValkeyStore",),
)
postgresql = Group("postgresql", "celery_semaphore/stores/postgresql/v1", ".sql")

MUTANTS = (
    lua(
        "a copy is told by its ticket",
        "one wait is one task; but so is what the broker delivers again after a crash, and it must run",
        "_messages",
        "(again or said.admitted ~= message)",
        "(again or said.ticket == ticket)",
    ),
    lua(
        "whoever was admitted has run",
        "its holder is released, so its task is over; but it may have been interrupted",
        "_messages",
        'said.ran and "copy"',
        'not messages.runs_until() and "copy"',
    ),
    lua(
        "anybody says that a task ran",
        "a late release of another holder ends a task that was interrupted",
        "_ran",
        "task.holder == arg(1) and task.admitted == arg(2)",
        "task.admitted == arg(2)",
    ),
    lua(
        "sent keeps the grant of another",
        "whoever comes late with the message keeps a later grant alive",
        "sent",
        "local granted = grant and grant.token == token",
        "local granted = grant",
    ),
    lua(
        "what was sent stays",
        "until somebody takes it up; so it is sent again",
        "sent",
        "        waits.dequeue(at, nonce)\n",
        "        local _ = waits.dequeue\n",
    ),
    lua(
        "whatever is in the outbox is sent",
        "a grant that ended before anybody took it, its message back in the line",
        "take",
        "if payload and (ended or grant and grant.token == token) then",
        "if payload then",
    ),
    lua(
        "attached again after its grant",
        "the answer was lost: it stands in the line once more, and is granted twice",
        "attach",
        "    waits.step_out(home, ticket)\n",
        "    local _ = home\n",
    ),
    lua(
        "nobody is told of the outbox",
        "whoever released sends it; but a client has no broker, and a worker may die",
        "_hand_on",
        (
            '        call("ZADD", home.outbox, permit.token, nonce)\n'
            "        index.mark_in_use(home, now)\n"
        ),
        '        call("ZADD", home.outbox, permit.token, nonce)\n',
    ),
    lua(
        "what was offered was taken",
        "whoever reaped died before it took anything",
        "reap",
        'call("EXISTS", at.outbox) == 1 and now or later',
        "later",
    ),
    lua(
        "sent forgets what was parked again",
        "its message came back late, was refused and attached: now it is nowhere",
        "sent",
        "    if granted then\n",
        "    if grant then\n",
    ),
    lua(
        "a message is taken by everybody",
        "what was handed on and not taken up is told to all, and published often",
        "take",
        '    call("ZREM", at.outbox, nonce)\n',
        "",
    ),
    postgresql(
        "a message attached twice goes out twice",
        "its permit is granted, so it goes out",
        "attach",
        "sends := granted AND coalesce(stood.session <> '', false);",
        "sends := granted;",
        "tests/stores/test_conformance.py::TestPostgresStore",
    ),
    lua(
        "what was sent and is named stands in line",
        "the store does not know it",
        "name",
        "elseif known.session ~= session then",
        "elseif known.session and known.session ~= session then",
    ),
    lua(
        "an end is as good as the next",
        "it was sent; but by another worker, and it was an earlier message",
        "sent",
        ' and tonumber(call("ZSCORE", at.due, nonce)) == until_when\n',
        "\n",
    ),
    postgresql(
        "a late release ends the grant of what was sent",
        "the holder made the ticket",
        "release_slow_path",
        " AND NOT (w.state = 'granted' AND w.session = ''));",
        ");",
        "tests/stores/test_conformance.py::TestPostgresStore",
        "-k",
        "late_release_leaves",
    ),
    lua(
        "any worker takes a message out of the outbox",
        "it can publish it",
        "take",
        "    return broker and info and info.broker and info.broker ~= broker\n",
        "    return false\n",
        "tests/stores/test_conformance.py::TestValkeyStore",
        "-k",
        "test_each_broker_takes_its_own",
    ),
    lua(
        "a message that does not arrive keeps its permit",
        "the message may come some day",
        "sent",
        "now + (arg(4) and 0 or waits.TAKE_UP)",
        "now + waits.TAKE_UP",
        "tests/stores/test_conformance.py::TestValkeyStore",
        "-k",
        "test_the_permit_of_one_that_does_not_arrive_is_handed_on",
    ),
    postgresql(
        "what is parked is as durable as the server likes",
        "synchronous_commit is off there",
        "epoch",
        "ELSIF current_setting('synchronous_commit') = 'off' THEN",
        "ELSIF false THEN",
        "tests/stores/postgresql/test_faults.py::TestRestarts",
        "-k",
        "not embedded",
    ),
)
