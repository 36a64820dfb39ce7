"""Wrong ideas about the counts for metrics."""

from __future__ import annotations

from .epochs import MEMORY
from .lua import CONFORMANCE as VALKEY
from .mutant import Group
from .postgresql import CONFORMANCE as POSTGRES

COSTS = ("tests/stores/test_totals.py", "-k", "valkey")
READS = ("tests/stores/postgresql/test_totals.py", "-k", "not embedded")

redis = Group("totals/redis", "celery_semaphore/stores/redis", suffix="", tests=VALKEY)
memory = Group("totals/memory", "celery_semaphore/stores/memory", tests=MEMORY)
postgresql = Group(
    "totals/postgresql", "celery_semaphore/stores/postgresql", suffix="", tests=POSTGRES
)
every = Group("totals/every", "celery_semaphore/stores", tests=MEMORY)

IN_REDIS = (
    redis(
        "what is overdue is held",
        "nothing has ended it",
        "lua/totals.lua",
        'in_grace and "-inf" or string.format("(%.0f", now)',
        '"-inf"',
    ),
    redis(
        "what ends now is held",
        "it lasts until then",
        "lua/totals.lua",
        '"(%.0f"',
        '"%.0f"',
    ),
    redis(
        "the grace keeps nothing",
        "a lease is a lease",
        "lua/totals.lua",
        'in_grace and "-inf" or string.format("(%.0f", now)',
        'string.format("(%.0f", now)',
    ),
    redis(
        "beside waits what is overdue is held",
        "nothing has ended it",
        "lua/totals.lua",
        "is_alive and (heavy",
        "true and (heavy",
    ),
    redis(
        "beside waits the grace keeps nothing",
        "a lease is a lease",
        "lua/totals.lua",
        "in_grace or tonumber(entries[n + 1])",
        "tonumber(entries[n + 1])",
    ),
    redis(
        "a grant is a permit",
        "its weight is taken",
        "lua/totals.lua",
        "            granted = granted + 1\n",
        "            granted = granted + 0\n",
    ),
    redis(
        "a heavy grant is a permit",
        "its weight is taken",
        "lua/totals.lua",
        "            granted = granted + weight\n",
        "            held = held + weight\n",
    ),
    redis(
        "holders are counted, not weighed",
        "most weigh 1",
        "lua/totals.lua",
        "(heavy[name] or 1) or 0",
        "1 or 0",
    ),
    redis(
        "the semaphore's limit precedes the key's",
        "it is for all of them",
        "lua/totals.lua",
        "return set[1] or set[2]",
        "return set[2] or set[1]",
    ),
    redis(
        "a pause that has ended is counted",
        "it is written there",
        "lua/totals.lua",
        'tonumber(pause:match("^%d+")) > now',
        'tonumber(pause:match("^%d+")) > 0',
    ),
    redis(
        "what a session is granted waits",
        "it has not taken it up",
        "lua/totals.lua",
        "reachable = reachable - 1",
        "reachable = reachable - 0",
    ),
    redis(
        "all grants are asked for",
        "whoever is granted asks",
        "lua/totals.lua",
        ' and call("HEXISTS", payloads, nonce) == 0 then',
        " then",
    ),
    redis(
        "an overdue grant is none",
        "its time is over, so its wait is in line",
        "lua/totals.lua",
        "            table.insert(nonces, name:sub(#GRANT + 1))\n",
        "            if weight > 0 then table.insert(nonces, name:sub(#GRANT + 1)) end\n",
    ),
    redis(
        "a grant without a record is a wait",
        "a grant is made for one",
        "lua/totals.lua",
        'if call("HEXISTS", tickets, nonce) == 1 and call("HEXISTS", payloads, nonce) == 0 then',
        'if call("HEXISTS", payloads, nonce) == 0 then',
    ),
    redis(
        "the first in line is the oldest",
        "first come, first served",
        "lua/totals.lua",
        'string.format("[%03d", urgency + 1), "+", "LIMIT", 0, 1)[1]',
        '"[256", "+", "LIMIT", 0, 1)[1]',
    ),
    redis(
        "only those in line are old",
        "a wait in transit asks soon",
        "lua/totals.lua",
        "        if lines[n] > 0 then\n",
        "        if lines[n] > 0 and n > 1 then\n",
    ),
    redis(
        "those set aside are not old",
        "they block nobody",
        "lua/totals.lua",
        "        if lines[n] > 0 then\n",
        "        if lines[n] > 0 and n < 3 then\n",
    ),
    redis(
        "all of the outbox must be sent",
        "it is the outbox",
        "lua/totals.lua",
        "count, first = outgoing(KEYS[k + 5], KEYS[k + 1], nonces)",
        'count = call("ZCARD", KEYS[k + 5])',
    ),
    redis(
        "a message is sent with a later grant",
        "its wait is granted, whatever for",
        "lua/totals.lua",
        'if token > 0 and call("HGET", ledger, string.format("for:%.0f", token)) == GRANT .. nonce then',
        "if token > 0 then",
    ),
    redis(
        "an ended wait that is parked again is in the outbox",
        "take finds out",
        "lua/attach.lua",
        '    call("ZREM", home.outbox, nonce)\n',
        "    home.outbox = home.outbox\n",
    ),
    redis(
        "counting tells of the epoch",
        "each answer begins with it",
        "lua/totals.lua",
        "return {tonumber(ARGV[5]) or false,",
        'return {tonumber(call("HGET", EPOCH, "id")) or false,',
    ),
    redis(
        "counting begins an epoch",
        "as each call does",
        "scripts.py",
        'TOTALS = Script("_call", "_look", "_limits", "totals")',
        'TOTALS = Script("_call", "_prelude", "_look", "_limits", "totals")',
    ),
    redis(
        "a newer format is counted",
        "nothing is written",
        "lua/_look.lua",
        "if memory[3] ~= FORMAT and",
        "if false and",
    ),
    redis(
        "each wait is looked at",
        "to know which has a message",
        "lua/totals.lua",
        '    local messages, count, first = call("HLEN", payloads), 0, nil\n',
        '    local messages, count, first = call("HLEN", payloads), 0, nil\n'
        '    for _, nonce in ipairs(call("HKEYS", tickets)) do call("HGET", tickets, nonce) end\n',
        tests=COSTS,
    ),
)

IN_MEMORY = (
    memory(
        "what is overdue is held",
        "nothing has ended it",
        "totals",
        " if not state.is_over(entry)]",
        "]",
    ),
    memory(
        "the grace keeps nothing",
        "a lease is a lease",
        "totals",
        " if not state.is_over(entry)]",
        " if entry.ends > state.now]",
    ),
    memory(
        "a message that is not attached yet is parked",
        "its wait is",
        "totals",
        "waiter.payload is not None for waiter",
        'waiter.kind == "park" for waiter',
    ),
    memory(
        "all of the outbox must be sent",
        "it is the outbox",
        "totals",
        "list(outgoing(at))",
        "[(at.tickets[nonce], at.grants.get(nonce)) for nonce in at.outbox]",
    ),
    memory(
        "an ended message has the age of another's grant",
        "it is its task's",
        "totals",
        "if entry and not waiter.ended",
        "if entry",
    ),
    memory(
        "a clock does not step back",
        "time passes",
        "totals",
        "seconds(max(0, state.now - first))",
        "seconds(state.now - first)",
    ),
    memory(
        "counting begins an epoch",
        "as each call does",
        "store",
        "totals(self._state, ",
        "totals(self._entered(), ",
    ),
    memory(
        "a newer format is counted",
        "nothing is written",
        "totals",
        '    check_format("the store", state.epoch.format)\n',
        "    check_format\n",
    ),
)

IN_POSTGRESQL = (
    postgresql(
        "what is overdue is held",
        "nothing has ended it",
        "v1/totals.sql",
        "        AND (p.ends > CASE WHEN p.granted THEN now ELSE permits_ended_by END OR in_grace)\n",
        "",
    ),
    postgresql(
        "the grace keeps nothing",
        "a lease is a lease",
        "v1/totals.sql",
        " ELSE permits_ended_by END OR in_grace)",
        " ELSE permits_ended_by END)",
    ),
    postgresql(
        "a free row is a permit",
        "it has a weight",
        "v1/totals.sql",
        "p.resource = asked.name AND p.holder IS NOT NULL",
        "p.resource = asked.name",
    ),
    postgresql(
        "those set aside are not parked",
        "they are in no line",
        "v1/totals.sql",
        "w.state IN ('in_line', 'set_aside') AND w.payload IS NOT NULL",
        "w.state = 'in_line' AND w.payload IS NOT NULL",
    ),
    postgresql(
        "what is granted waits",
        "it has not taken it up",
        "v1/totals.sql",
        "w.state NOT IN ('granted', 'ended')) AS waiting",
        "w.state <> 'ended') AS waiting",
    ),
    postgresql(
        "what is granted is old",
        "it has not taken it up",
        "v1/totals.sql",
        "w.state NOT IN ('granted', 'ended')) AS oldest",
        "w.state <> 'ended') AS oldest",
    ),
    postgresql(
        "a permit tells the age of the outbox",
        "a message is sent with one",
        "v1/totals.sql",
        " AND (\n        SELECT w.outbox",
        " OR (\n        SELECT w.outbox",
    ),
    postgresql(
        "an ended message has the age of another's grant",
        "it is its task's",
        "v1/totals.sql",
        "w.outbox AND w.state = 'granted' FROM",
        "w.outbox FROM",
    ),
    postgresql(
        "the semaphore's limit precedes the key's",
        "it is for all of them",
        "v1/decisions.sql",
        "ORDER BY d.name DESC LIMIT 1",
        "ORDER BY d.name LIMIT 1",
    ),
    postgresql(
        "what is paused is not counted",
        "it has a limit",
        "v1/totals.sql",
        "celery_semaphore.v1_paused_until(asked.name, now) IS NOT NULL",
        "false",
    ),
    postgresql(
        "in the order of the names",
        "each row has one",
        "v1/totals.sql",
        "ORDER BY asked.n;",
        "ORDER BY asked.name;",
    ),
    postgresql(
        "a newer format is counted",
        "nothing is written",
        "v1/totals.sql",
        "    PERFORM celery_semaphore.v1_check_format(b.format) FROM celery_semaphore.epoch_before AS b;\n",
        "",
    ),
    postgresql(
        "counting begins an epoch",
        "as each call does",
        "v1/totals.sql",
        "celery_semaphore.v1_now(_call.clock);",
        "(celery_semaphore.v1_enter('{}', _call)).now;",
    ),
    postgresql(
        "counting takes the locks",
        "as each call does",
        "v1/totals.sql",
        "celery_semaphore.v1_now(_call.clock);",
        "(celery_semaphore.v1_enter(_names, _call)).now;",
        tests=READS,
    ),
)

FOR_ALL = (
    every(
        "a clock does not step back",
        "time passes",
        "encoding",
        "max(0.0, seconds(since))",
        "seconds(since)",
        tests=VALKEY,
    ),
    every(
        "any number at once",
        "a caller knows what it asks",
        "encoding",
        "    if len(resources) > TOTALLED:\n",
        "    if False:\n",
    ),
)

MUTANTS = (*IN_REDIS, *IN_MEMORY, *IN_POSTGRESQL, *FOR_ALL)
