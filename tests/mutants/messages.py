"""Wrong ideas about messages in the scripts of Redis and Valkey: their copies, and their way out of the store."""

from __future__ import annotations

from .lua import CONFORMED, KEYS, lua
from .nonces import nonces
from .postgresql import postgresql

ON_VALKEY, ON_MEMORY, ON_POSTGRES = (
    f"{CONFORMED}::Test{name}Store" for name in ("Valkey", "Memory", "Postgres")
)
ENDED = (ON_VALKEY, "-k", "another_message_of_the_wait_that_is_over")
LATER = (ON_VALKEY, "-k", "a_wait_that_began_after_that_run")

COPIES = [
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
        "only what ran has copies",
        "nobody looks whether the other message of the task is running",
        "_messages",
        'said.ran and "copy" or messages.runs_until() and "running" or nil',
        'said.ran and "copy" or nil',
    ),
    lua(
        "what runs will have run",
        "the copy is thrown away while the other may still die",
        "_messages",
        'messages.runs_until() and "running"',
        'messages.runs_until() and "copy"',
    ),
    lua(
        "a first message is a copy too",
        "task ids are unique; but senders use them again",
        "_messages",
        "local said = messages_key and not is_first and",
        "local said = messages_key and",
    ),
    lua(
        "a first message forgets nothing",
        "what is known of an earlier task with its id holds for its own redelivery",
        "acquire",
        ", messages_key or at.tickets) == 0",
        ") == 0",
    ),
    lua(
        "a first message in a line forgets nothing",
        "the same, where somebody waits",
        "acquire_slow_path",
        'elseif messages_key then\n    call("DEL", messages_key)\n',
        "",
    ),
    lua(
        "an earlier task's message speaks for the later",
        "same task id, same task",
        "_messages",
        'local of_earlier = said and said.ticket ~= "" and ticket ~= ""\n    and records.nonce_of(said.ticket) ~= records.nonce_of(ticket)',
        "local of_earlier = false",
    ),
    lua(
        "what goes back is the newest of its task",
        "it is of an earlier task with the same id, and overwrites what is known of the later",
        "_messages",
        "if messages_key and not of_earlier then",
        "if messages_key then",
    ),
    lua(
        "a message without its ticket waits anew",
        "the answer that named it was lost, and with it the place",
        "_messages",
        "    ticket = said.ticket\nend\n",
        '    ticket = ""\nend\n',
    ),
    lua(
        "a copy stands in the line",
        "it is refused, so it waits",
        "_own_wait",
        'reason == "copy" or reason == "running" then',
        'reason == "running" then',
    ),
    lua(
        "who waits for its other message stands in the line",
        "and is counted, and handed a permit",
        "_own_wait",
        ' or reason == "running" then',
        " then",
    ),
    lua(
        "who waits for its other message has its ticket",
        "it comes back with its place; but that wait is over",
        "_own_wait",
        'ticket = "" -- also of A9',
        'ticket = reason == "running" and messages.carried or "" -- also of A9',
    ),
    lua(
        "a refusal forgets who runs",
        "a redelivery goes back, and what it left is no copy when the first has run",
        "_own_wait",
        ' or reason == "recovering") and not messages.runs_until() then',
        ' or reason == "recovering") then',
    ),
    lua(
        "only a ticket is worth remembering",
        "who would not wait goes back in the grace, and both of its messages run",
        "_own_wait",
        '(ticket ~= "" or reason == "recovering")',
        'ticket ~= ""',
    ),
    lua(
        "anybody says that a task ran",
        "a late release of another holder ends a task that was interrupted",
        "_ran",
        "task.holder == arg(1) and task.admitted == arg(2)",
        "task.admitted == arg(2)",
    ),
    lua(
        "whichever message ran",
        "a holder has one message, so why compare",
        "_ran",
        "task.holder == arg(1) and task.admitted == arg(2)",
        "task.holder == arg(1)",
    ),
    lua(
        "what ran is remembered for ever",
        "one key for each task that ever waited",
        "_ran",
        ', "PX", math.ceil(arg(3) / 1000))',
        ")",
        tests=KEYS,
    ),
    lua(
        "what waits is remembered for ever",
        "the same, of tasks that were revoked or died",
        "_messages",
        ', "PX", math.ceil(remembered / 1000))',
        ")",
        tests=KEYS,
    ),
]

OUTBOX = [
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
        "the time to take up begins with the grant",
        "publishing takes no time",
        "sent",
        '        call("ZADD", at.holders, now + (arg(4) and 0 or waits.TAKE_UP), GRANT .. nonce)\n',
        "",
    ),
    lua(
        "whatever is in the outbox is sent",
        "a grant that ended before anybody took it, its message back in the line",
        "take",
        "if payload and (ended or grant and grant.token == token) then",
        "if payload then",
    ),
    lua(
        "an ended wait is granted",
        "it stands in the line until its message is gone",
        "_waits",
        '    waits.step_out(at, ticket)\n    call("ZADD", at.outbox',
        '    call("ZADD", at.outbox',
    ),
    lua(
        "an ended wait is offered once",
        "whoever took it will send it",
        "_waits",
        '    call("ZADD", at.due, now + waits.TAKE_UP, nonce)\n',
        '    call("ZADD", at.due, "+inf", nonce)\n',
    ),
    lua(
        "a granted wait can end",
        "its time is over: the message is offered once more, although it is on its way",
        "_waits",
        "    if granted_until then",
        "    if false then",
    ),
    lua(
        "a message is found by the name that it had",
        "it was the name of its ticket, and that is still there",
        "_line",
        "        waits.forget_name(at, before.name, nonce)\n",
        "",
    ),
    lua(
        "no message has a blank in its name",
        "Celery gives none such; but a program may",
        "_messages",
        'match("^(%d+) ?(.*)$")',
        'match("^(%d+) ?(%S*)")',
    ),
    lua(
        "a wait that ended while it was granted is granted again",
        "when it was over its message was on its way",
        "_waits",
        'call("ZADD", at.due, granted_until, nonce)',
        'call("ZADD", at.due, now + waits.TAKE_UP, nonce)',
    ),
    lua(
        "a wait that is over stays so while it is granted",
        "its time is known; but each call looks at so many only, and others are behind it",
        "_waits",
        '        call("ZADD", at.due, granted_until, nonce)\n',
        "",
    ),
    lua(
        "nobody is told that a wait ended",
        "the index says when to look, and nobody sets it",
        "_waits",
        "    waits.forget_name(at, info.name, nonce)\n    index.mark_in_use(at, now)\n",
        "    waits.forget_name(at, info.name, nonce)\n",
    ),
    lua(
        "a parked message waits for ever",
        "expires and wait_timeout are for messages that come back by themselves",
        "_line",
        'info.ends or "+inf"',
        '"+inf"',
    ),
    lua(
        "nobody looks when a wait ends",
        "the next look is a lease away",
        "_line",
        "            index.mark_in_use(at, info.ends)\n",
        "            local _ = index.mark_in_use\n",
    ),
    lua(
        "parked without a name",
        "who is revoked while it waits is not found",
        "_line",
        '            call("HSET", NAMES, info.name, at.name .. "\\n" .. nonce)\n',
        "            local _ = NAMES\n",
    ),
    lua(
        "names are never forgotten",
        "one for each message that ever was parked",
        "_waits",
        "        waits.forget_name(at, info.name, nonce)\n    end\nend\n\n-- Delete a wait, with",
        "    end\nend\n\n-- Delete a wait, with",
        tests=KEYS,
    ),
    lua(
        "coming back unasked forgets when the wait ends",
        "a second delivery asks, is refused, and its message now waits for ever",
        "_own_wait",
        "asked.name, asked.ends = before.name, before.ends",
        "asked.name = before.name",
    ),
    lua(
        "coming back unasked forgets the name",
        "and the revoked is not found any more",
        "_own_wait",
        "asked.name, asked.ends = before.name, before.ends",
        'asked.name, asked.ends = "", before.ends',
    ),
    lua(
        "who requeues leaves its message parked",
        "the task's options changed; now it is in both",
        "_own_wait",
        '        elseif kind == "park" and payload then\n'
        "            asked.name, asked.ends = before.name, before.ends\n"
        "            asked.broker = before.broker\n"
        '        elseif session ~= "" then -- E1, E2\n'
        "            asked.session, asked.epoch = session, epoch\n"
        "        end\n"
        '        line.enqueue(claim.at, ticket, asked, kind == "park" and payload)\n',
        "        elseif payload then\n"
        "            asked.name, asked.ends = before.name, before.ends\n"
        "        end\n"
        "        line.enqueue(claim.at, ticket, asked, payload)\n",
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
        '        call("ZADD", home.outbox, permit.token, nonce)\n        index.mark_in_use(home, now)\n',
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
        "a copy's grant is kept",
        "nobody takes it up: a permit lies idle for as long as that is waited for",
        "acquire_slow_path",
        "            holders.take_back(claim.at, own_wait.nonce)\n            index.mark_in_use(claim.at, now)\n",
        "",
    ),
    lua(
        "a name is forgotten by whoever had it",
        "a task id was used again: the newer task can no longer be revoked",
        "_waits",
        'if name and call("HGET", NAMES, name) == at.name .. "\\n" .. nonce then',
        "if name then",
    ),
    lua(
        "a limit that an acquire raised is handed on by the next release",
        "permits lie idle until then, or for a lease",
        "acquire_slow_path",
        "    if at.raised and not at.no_waiters then",
        "    if false then",
    ),
]

CALLERS = [
    lua(
        "the line is handed on from its end",
        "last come, first served",
        "_line",
        'call("ZRANGEBYLEX", at.line, after(at), up_to, "LIMIT", 0, 1)',
        'call("ZRANGE", at.line, up_to, after(at), "BYLEX", "REV", "LIMIT", 0, 1)',
    ),
    lua(
        "a wait whose message was sent stands in line when its grant ends",
        "as a message that was not sent: the line stops at it again and again",
        "_expiry",
        "    else -- its message was sent\n        waits.dequeue(at, nonce)\n",
        "    elseif waits.ticket_of(at, nonce) then\n"
        '        call("ZADD", at.line, 0, waits.ticket_of(at, nonce))\n',
    ),
    lua(
        "a ticket cannot be given up",
        "only holders are released",
        "release_slow_path",
        "local wait, given_up = nonce or holder, nonce\n",
        "local wait, given_up = holder, nil\n",
    ),
    lua(
        "a call may be late",
        "there is a permit, so it gets it; but its caller was promised to hear by now",
        "acquire_slow_path",
        'if not whole and line.place_of(ticket) < now and own_wait.kind == "block" and own_wait.left() <= 0 then',
        "if false then",
    ),
    lua(
        "a grant in time is too late",
        "the way from the store to the worker counts as waiting",
        "acquire_slow_path",
        'if not whole and line.place_of(ticket) < now and own_wait.kind == "block" and own_wait.left() <= 0 then',
        'if line.place_of(ticket) < now and own_wait.kind == "block" and own_wait.left() <= 0 then',
    ),
    lua(
        "who would not wait at all is late at once",
        "no time is left",
        "acquire_slow_path",
        'if not whole and line.place_of(ticket) < now and own_wait.kind == "block" and own_wait.left() <= 0 then',
        'if not whole and own_wait.kind == "block" and own_wait.left() <= 0 then',
    ),
]

AGAIN = [
    lua(
        "only another message has run",
        "what the broker delivers again runs again, as in plain Celery; but the run of a long task ends it never",
        "_messages",
        "(again or said.admitted ~= message)",
        "said.admitted ~= message",
    ),
    lua(
        "a first message leaves a record",
        "as all others do when they are admitted",
        "_messages",
        "        said, looked = find_run(), true\n",
        "        looked = true\n",
    ),
    lua(
        "any run with that beginning is its own",
        "task ids look alike",
        "_messages",
        'local start, found = task_id .. ":", nil',
        "local start, found = task_id, nil",
    ),
    lua(
        "a run is found, and not noted",
        "the next delivery finds it again; but not once it has ended",
        "_messages",
        '        call("HSET", resources[1].ledger, "again:" .. said.holder, 1)\n',
        "",
    ),
    lua(
        "the mark of a run outlives it",
        "holders' names are unique",
        "_records",
        ', "again:" .. name)',
        ")",
        tests=KEYS,
    ),
    lua(
        "a wait goes on after its run",
        "it has its place; but two that are rejected for ever keep all others away",
        "acquire_slow_path",
        "messages.begins_anew() and own_wait.new_ticket() or known",
        "known",
    ),
    lua(
        "only what is delivered again begins anew",
        "a rejected message comes back; but one of a granted queue is published into its home queue",
        "_messages",
        "again or not brings_later_wait and said.admitted ~= message",
        "again",
    ),
    lua(
        "who brings a ticket goes on waiting",
        "a run leaves none; but the header of a message that was never admitted still has one",
        "_messages",
        "\n    and line.place_of(ticket) > line.place_of(said.ticket)\n",
        "\n",
        tests=ENDED,
    ),
    lua(
        "any message that comes after a run begins anew",
        "its wait is over; but a later one may have begun at another resource, and that one goes on",
        "_messages",
        "again or not brings_later_wait and said.admitted ~= message",
        "again or said.admitted ~= message",
        tests=LATER,
    ),
    lua(
        "the header tells the place",
        "the broker still has it; but that wait is over",
        "_messages",
        " or line.place_of(ticket) < line.place_of(said.ticket)) then",
        ") then",
    ),
    lua(
        "a run ends when its lease would",
        "so nothing is asked before; but its process may have been killed a moment ago",
        "_own_wait",
        "math.min(math.floor(LEASE / 3), messages.runs_until() - now)",
        "messages.runs_until() - now",
    ),
    lua(
        "a run counts as waiting",
        "the wait has its timeout; and so a message that runs is asked for all the time",
        "_own_wait",
        'reason == "running" and seconds or math.min',
        "math.min",
    ),
]

ELSEWHERE = [
    nonces(
        "who brings a ticket goes on waiting",
        "a run leaves none",
        "messages",
        "bool(self._carried and told and self._carried.place > told.place)",
        "bool(self._carried)",
        ON_MEMORY,
        *ENDED[1:],
    ),
    postgresql(
        "who brings a ticket goes on waiting",
        "a run leaves none",
        "v1/acquire_slow_path.sql",
        "coalesce((_a.ticket).place <= (celery_semaphore.v1_parse_ticket(said.ticket)).place, true)",
        "_a.carried = ''",
        tests=(ON_POSTGRES, *ENDED[1:]),
    ),
    postgresql(
        "any message that comes after a run begins anew",
        "its wait is over",
        "v1/acquire_slow_path.sql",
        "coalesce((_a.ticket).place <= (celery_semaphore.v1_parse_ticket(said.ticket)).place, true)",
        "true",
        tests=(ON_POSTGRES, *LATER[1:]),
    ),
]

MUTANTS = (*COPIES, *OUTBOX, *CALLERS, *AGAIN, *ELSEWHERE)
