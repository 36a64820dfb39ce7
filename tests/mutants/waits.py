"""Wrong ideas about waits in Redis and PostgreSQL: their place in the line, their grants, and their sessions."""

from __future__ import annotations

from .mutant import Group

lua = Group(
    "lua",
    "celery_semaphore/stores/redis/lua",
    ".lua",
    ("tests/stores/test_conformance.py::TestValkeyStore",),
)
kept_room_on_postgresql = Group(
    "kept room on postgresql", "celery_semaphore/stores/postgresql/v1", ".sql"
)
postgresql = Group("postgresql", "celery_semaphore/stores/postgresql/v1", ".sql")
short = Group(
    "short",
    "celery_semaphore/stores/postgresql/v1",
    ".sql",
    ("tests/stores/postgresql/test_short_ways.py",),
)

MUTANTS = (
    lua(
        "newcomers overtake the parked",
        "a free permit goes to whoever asks, and the parked wait on",
        "_line",
        '    if line.first(claim.at, "(" .. ticket, claim.limit) then return "saturated" end\n',
        "",
    ),
    lua(
        "a repeated acquire makes a second ticket",
        "its answer was lost, and nobody will ever come back with the first",
        "acquire_slow_path",
        'waits.known_ticket(own_wait.nonce) or ticket ~= "" and ticket or own_wait.new_ticket()',
        'ticket ~= "" and (waits.known_ticket(own_wait.nonce) or ticket) or own_wait.new_ticket()',
    ),
    lua(
        "an unanswered ticket stays",
        "a release after a lost refusal leaves its ticket in the line",
        "release_slow_path",
        "        waits.dequeue(at, wait)\n",
        "",
    ),
    lua(
        "a grant needs one of its claims",
        "the one whose permit was just given back",
        "_hand_on",
        "    for n = 2, #claims do\n",
        "    for n = 2, 0 do\n",
    ),
    lua(
        "a grant that nobody takes up is gone",
        "who was told died before it could publish the message",
        "_expiry",
        '        call("ZADD", at.line, 0, waits.ticket_of(at, nonce))\n',
        "        local _ = name\n",
    ),
    lua(
        "a grant never ends",
        "whoever was granted will come",
        "_hand_on",
        "parked and now + waits.TAKE_UP or GRANT_END\n",
        "parked and now + 1000 * waits.TAKE_UP or GRANT_END\n",
    ),
    lua(
        "a grant is taken up twice",
        "the grant stays beside the permit that came of it",
        "acquire_slow_path",
        ("    if grant then\n        holders.take_back(claim.at, own_wait.nonce)\n"),
        "    if grant then\n",
    ),
    lua(
        "a repeated release grants nothing",
        "its first answer was lost, and with it the message that was handed on",
        "_hand_on",
        'if call("EXISTS", at.outbox) == 1 then',
        'if tries > 0 and call("EXISTS", at.outbox) == 1 then',
    ),
    lua(
        "an interrupted hand-on is not looked for",
        "its caller died between two calls, and the resource's next look is a lease away",
        "_hand_on",
        "local look = (again or #undeclared > 0) and now or in_grace",
        "local look = in_grace",
        "tests/stores/test_redis.py::TestPartialLoss",
        "tests/stores/test_redis.py::TestHandOnInSeveralCalls",
        "-k",
        "valkey",
    ),
    lua(
        "attaching grants nothing",
        "the permit came back between the refusal and the message: it waits for the next release",
        "attach",
        "return hand_on.answer()",
        "return {epoch, 0, {}, {}}",
    ),
    lua(
        "a call may be late",
        "there is a permit, so it gets it; but its caller was promised to hear by now",
        "acquire_slow_path",
        'if not whole and line.place_of(ticket) < now and own_wait.kind == "block" and own_wait.left() <= 0 then',
        "if false then",
    ),
    kept_room_on_postgresql(
        "a new task sees what is free on the short way",
        "permits and grants are all that is in use",
        "acquire",
        "        AND r.kept IS NULL\n",
        "",
        "tests/stores/postgresql/test_kept_room.py",
        "-k",
        "embedded",
    ),
    postgresql(
        "where there is room a ticket does not matter",
        "a permit was handed to it",
        "acquire",
        "IF _a.carried = '' THEN",
        "IF true THEN",
        "tests/stores/test_conformance.py::TestUsedPostgresStore",
    ),
    short(
        "a permit goes to the next, whatever the limit",
        "it was lowered, or it is heavier",
        "pass_on",
        "held.occupied - p.weight + head.weight = at.in_force",
        "held.occupied - p.weight + head.weight >= at.in_force",
    ),
    short(
        "a session that sleeps is granted a permit",
        "nobody asks for it",
        "pass_on",
        "head.session, _now - _call.lease)",
        "head.session, 0)",
    ),
    short(
        "a wait that was granted stands in line",
        "it would be granted two",
        "pass_on",
        "    UPDATE celery_semaphore.waiter AS w SET state = 'granted' WHERE w.id = head.id;\n",
        "",
    ),
    short(
        "who hands on leaves no trace",
        "its acquire may still be on its way",
        "release",
        "            done := celery_semaphore.v1_mark_released(home, _holder, now + _call.lease);\n",
        "",
    ),
    lua(
        "sessions, a wait of a sleeping session blocks the line",
        "it stands first",
        "_line",
        "if not info or sessions.reach(info) then",
        "if true then",
        "tests/stores/test_conformance.py::TestValkeyStore",
        "-k",
        "sleeping or lease_without",
    ),
    lua(
        "sessions, any session prolongs a grant",
        "it has the ticket",
        "ask",
        "if is_granted[arg(4 + n)] then",
        "if true then",
        "tests/stores/test_conformance.py::TestValkeyStore",
        "-k",
        "another_session_prolongs or overdue_grant",
    ),
    lua(
        "sessions, a session takes what another owns",
        "it has a message of it too",
        "name",
        "elseif known.session ~= session then",
        "elseif false then",
        "tests/stores/test_conformance.py::TestValkeyStore",
        "-k",
        "another_session_has or parked_meanwhile",
    ),
    postgresql(
        "sessions/an overdue grant can be taken up",
        "nobody ended it",
        "ask",
        ("v1_grant_name(w.nonce)\n            AND p.ends > _m.now LIMIT 1"),
        "v1_grant_name(w.nonce) LIMIT 1",
        "tests/stores/test_conformance.py::TestPostgresStore",
        "-k",
        "overdue_grant",
    ),
)
