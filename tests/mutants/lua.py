"""Wrong ideas about the scripts of Redis and Valkey."""

from __future__ import annotations

from .mutant import Mutant

CONFORMANCE = ("tests/stores/test_conformance.py::TestValkeyStore",)
REDIS = "tests/stores/test_redis.py"
RESTARTS = ("tests/stores/test_faults.py::TestRestarts", "-k", "valkey")
KEYS = (f"{REDIS}::TestKeys", "-k", "valkey")
LOSSES = (f"{REDIS}::TestPartialLoss", f"{REDIS}::TestHandOnInSeveralCalls", "-k", "valkey")


def lua(
    name: str,
    why: str,
    file: str,
    text: str,
    instead: str,
    *,
    tests: tuple[str, ...] = CONFORMANCE,
) -> Mutant:
    file = f"celery_semaphore/stores/redis/{file}.lua"
    return Mutant(f"lua/{name}", why, file, text, instead, tests)


ADMISSION = [
    lua(
        "count ignores weights",
        "one holder is one, whatever it weighs",
        "_permits",
        "sum = sum + weight - 1",
        "sum = sum + 0 * weight",
    ),
    lua(
        "the last permit is never given",
        "< for <= in the comparison with the limit",
        "_permits",
        "if claim.occupied + claim.weight > claim.limit then",
        "if claim.occupied + claim.weight >= claim.limit then",
    ),
    lua(
        "one above the limit",
        "the weight that asks is not added to what is occupied",
        "_permits",
        "if claim.occupied + claim.weight > claim.limit then",
        "if claim.occupied > claim.limit then",
    ),
    lua(
        "room for one is room for a newcomer",
        "the short way does not look whether somebody waits",
        "acquire",
        'call("EXISTS", at.tickets, at.weights) == 0',
        'call("EXISTS", at.weights) == 0',
    ),
    lua(
        "the short way ignores weights",
        "where nobody waits, the holders are counted, not weighed",
        "acquire",
        'call("EXISTS", at.tickets, at.weights) == 0',
        'call("EXISTS", at.tickets) == 0',
    ),
    lua(
        "the short way admits again",
        "somebody without a ticket must be new",
        "acquire",
        "at.plain and not at.record and not buried",
        "at.plain and not buried",
    ),
    lua(
        "the short way admits the buried",
        "who has no permit any more asks for a new one",
        "acquire",
        " and not buried(at, holder)",
        "",
    ),
    lua(
        "a weight above the limit waits as all others",
        "saturated, although it can never fit: it would be told to come back soon",
        "_permits",
        'if claim.weight > claim.limit then return "unsatisfiable" end\n',
        "",
    ),
    lua(
        "overdue leases still count",
        "nobody ends a lease but the reaper",
        "_ends",
        'call("ZRANGEBYSCORE", at.holders, "-inf", now, "LIMIT", 0, AT_ONCE)',
        'call("ZRANGEBYSCORE", at.holders, "-inf", "-inf", "LIMIT", 0, AT_ONCE)',
    ),
    lua(
        "a repeated acquire is a second permit",
        "the answer was lost, and the repetition is refused or counted twice",
        "acquire_else",
        "if complete then\n",
        "if complete and false then\n",
    ),
    lua(
        "the first claim is enough",
        "a refusal by the second of two claims is not looked for",
        "acquire_else",
        "        return refuse(n, reason)\n",
        "        if n == 1 then return refuse(n, reason) end\n",
    ),
    lua(
        "a refused multi-claim keeps its first permit",
        "claims are taken one by one, and nobody gives the first back",
        "acquire_else",
        "        return refuse(n, reason)\n",
        "        if n > 1 then\n"
        '            write(resources[1], holder, 1, {token = now, since = now, by = ""}, now + LEASE)\n'
        "        end\n"
        "        return refuse(n, reason)\n",
    ),
    lua(
        "a heavy permit weighs 1 after its lease",
        "the weight of who is gone stays in its hash",
        "_ends",
        '        call("HDEL", at.weights, name)\n',
        "",
    ),
    lua(
        "heavy waiters are starved",
        "a free permit goes to whoever asks, even if somebody heavy waits for several",
        "_line",
        "if other and heavy > weight and claim.occupied + weight + heavy > claim.limit then",
        "if false then",
    ),
    lua(
        "heavy waiters keep everything free",
        "nobody passes a heavy waiter, even if there is room for both",
        "_line",
        "if other and heavy > weight and claim.occupied + weight + heavy > claim.limit then",
        "if other and heavy > weight then",
    ),
    lua(
        "a token is the clock",
        "two admissions in one microsecond, or a clock that goes back, give tokens that do not grow",
        "_permits",
        "token = math.max(token, known(claim.at).token + 1)",
        "token = math.max(token, 0 * known(claim.at).token)",
    ),
    lua(
        "a token is a counter",
        "it begins at 1 again when the store forgot it",
        "_permits",
        "local token = now\n",
        "local token = 1\n",
    ),
    lua(
        "a token is kept at the first claim only",
        "the other resources see tokens that do not grow",
        "_permits",
        'call("HSET", at.ledger, "token", at.token,',
        'call("HSET", at.ledger, "token", at == resources[1] and at.token or 0,',
    ),
    lua(
        "a restored token is not the highest seen",
        "after a loss, newcomers may get tokens below those of the living: no token is newer than the clock",
        "_permits",
        "math.max(known(at).token, permit.token)",
        "math.max(known(at).token, math.min(permit.token, now))",
    ),
    lua(
        "a renewal puts the last token back",
        "the token that was written last is the last one",
        "_permits",
        "at.token = math.max(known(at).token, permit.token)",
        "at.token = known(at) and permit.token",
    ),
]

ENDS = [
    lua(
        "a release does not bury",
        "an acquire or a renewal that the network delivers late brings the permit back",
        "release",
        "at.again = not bury(at, holder)",
        'at.again = call("ZSCORE", at.released, holder)',
    ),
    lua(
        "a lease that ended does not bury",
        "who was declared dead asks again and runs beside its successor",
        "_ends",
        "            bury(at, name)\n",
        "",
    ),
    lua(
        "the buried are not asked about",
        "an acquire is refused only for want of room",
        "acquire_else",
        "    if buried(claim.at, holder) then\n",
        "    if false then\n",
    ),
    lua(
        "the buried are never forgotten",
        "one entry for each task that ever ran",
        "_ends",
        '        call("ZREM", at.released, unpack(old))\n',
        "",
        tests=KEYS,
    ),
    lua(
        "the buried carry no expiry",
        "a key that nobody uses keeps its dead for ever",
        "_ends",
        '    call("PEXPIRE", at.released, math.ceil(LEASE / 1000))\n',
        "",
        tests=KEYS,
    ),
    lua(
        "anybody may release",
        "a release frees a permit of the resource, whoever holds it",
        "release",
        "    at.again = not bury(at, holder)\n",
        '    erase(at, call("ZRANGE", at.holders, 0, 0)[1] or holder)\n'
        "    at.again = not bury(at, holder)\n",
    ),
    lua(
        "an unanswered ticket stays",
        "a release after a lost refusal leaves its ticket in the line",
        "release",
        "        leave(at, made)\n",
        "        local _ = made\n",
    ),
    lua(
        "a release takes the parked message along",
        "the delivery that parked ends, and its message with it",
        "release",
        'if made and call("HEXISTS", at.payloads, made) == 0 then',
        "if made then",
    ),
    lua(
        "the mean is not learnt",
        "how long permits are held is never known, so the delays are the default's",
        "release",
        "        learn(at, now - permit.since, mean, learnt)\n",
        "        local _ = learn\n",
    ),
    lua(
        "the last one is the mean",
        "one long run sends everybody far away",
        "release",
        "mean + (held_for - mean) / math.min(50, learnt)",
        "held_for",
    ),
    lua(
        "grants that were given up count as held",
        "a grant is a permit, so its time counts",
        "release",
        'permit.weight) and permit.by == "" then',
        "permit.weight) then",
    ),
]

RENEWALS = [
    lua(
        "a renewal revives outside the grace",
        "who is not found must have been forgotten",
        "renew",
        "if not in_grace or epoch_then == epoch then",
        "if epoch_then == epoch then",
    ),
    lua(
        "a renewal revives what this memory knew",
        "in the grace everybody who asks is put back",
        "renew",
        "if not in_grace or epoch_then == epoch then",
        "if not in_grace then",
    ),
    lua(
        "a renewal revives the released",
        "it was sent before the release and arrives after it",
        "renew",
        "if buried(claim.at, holder) or others + claim.weight",
        "if others + claim.weight",
    ),
    lua(
        "a renewal revives above the limit",
        "the living are put back, however many they are",
        "renew",
        "or others + claim.weight > limit_of(claim.at, claim.limit) then",
        "then",
    ),
    lua(
        "a restored weight is 1",
        "what is put back fits if there is room for one",
        "renew",
        "or others + claim.weight > limit_of(claim.at, claim.limit) then",
        "or others + 1 > limit_of(claim.at, claim.limit) then",
    ),
    lua(
        "a renewal after the end is in time",
        "nobody has dropped it yet, so it is still there",
        "_holding",
        "and (mine.ends > now or in_grace) then",
        "then",
    ),
    lua(
        "leases end while the server is away",
        "an overdue lease is dead even where nobody could renew it",
        "_holding",
        "and (mine.ends > now or in_grace) then",
        "and mine.ends > now then",
        tests=RESTARTS,
    ),
    lua(
        "a renewal keeps the old end",
        "who renews is told yes, and nothing is extended",
        "renew",
        "write(claim.at, holder, claim.weight, permit, now + LEASE)",
        "write(claim.at, holder, claim.weight, permit, permit.since + LEASE)",
    ),
    lua(
        "a permit on some of its claims is one",
        "part of it was evicted, and the rest is still renewed",
        "renew",
        "if part then\n",
        "if false then\n",
        tests=LOSSES,
    ),
]

MEMORY = [
    lua(
        "no grace after a loss",
        "an empty store means that nobody holds anything",
        "_memory",
        "grace_until = (known or epoch) and recovered or 0",
        "grace_until = 0",
    ),
    lua(
        "a grace for a store never used",
        "better safe: the first task of all waits for two thirds of a lease",
        "_memory",
        "grace_until = (known or epoch) and recovered or 0",
        "grace_until = recovered",
    ),
    lua(
        "the server's run is ignored",
        "data that survived a restart is complete",
        "_memory",
        'local restarted = run and run ~= "" and ARGV[4] ~= "" and run ~= ARGV[4]',
        "local restarted = false",
        tests=RESTARTS,
    ),
    lua(
        "who came first decides about the grace",
        "a newcomer found an empty store, so those who know better are not believed",
        "_memory",
        "elseif known and known ~= epoch and grace_until == 0 and now < memory[3] + LEASE then",
        "elseif false then",
    ),
    lua(
        "each process begins the grace anew",
        "with many workers there is no end to it",
        "_memory",
        "elseif known and known ~= epoch and grace_until == 0 and now < memory[3] + LEASE then",
        "elseif known and known ~= epoch then",
    ),
    lua(
        "newcomers are admitted in the grace",
        "there is room, as far as this memory goes",
        "_permits",
        '    if in_grace then return "recovering" end\n',
        "",
    ),
    lua(
        "the epoch is the clock",
        "a replica whose clock is behind begins an epoch that is older than the last",
        "_memory",
        "epoch = math.max(now, (epoch or 0) + 1, (known or 0) + 1)",
        "epoch = now",
    ),
]

LINES = [
    lua(
        "a ticket's place is taken anew",
        "each refusal sends its waiter to the end of the line",
        "_asking",
        '    if ticket:match("^%d%d%d%.%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%..") then\n',
        '    if ticket == "kept" then\n',
    ),
    lua(
        "a repeated acquire makes a second ticket",
        "its answer was lost, and nobody will ever come back with the first",
        "_asking",
        "        if made then\n",
        "        if false then\n",
    ),
    lua(
        "priority is ignored",
        "first come, first served, whatever is urgent",
        "_asking",
        '.format("%03d.%016.0f.", 255 - urgency, now)',
        '.format("%03d.%016.0f.", 255 + 0 * urgency, now)',
    ),
    lua(
        "position counts all waiters",
        "the first of a hundred is told to come back after a hundred turns",
        "_line",
        'local before = "(" .. ticket\n',
        'local before = "+"\n',
    ),
    lua(
        "position counts the dropped",
        "who never came back is still waited for",
        "_ends",
        'for _, ticket in ipairs(call("ZRANGEBYSCORE", at.due, "-inf", now,',
        'for _, ticket in ipairs(call("ZRANGEBYSCORE", at.due, "-inf", "-inf",',
    ),
    lua(
        "a ticket stands in two lines",
        "refused by another claim than before, it is still counted at the first",
        "_asking",
        '            payload = call("HGET", at.payloads, ticket)\n            leave(at, ticket)\n',
        '            payload = call("HGET", at.payloads, ticket)\n',
    ),
    lua(
        "an admitted ticket stays in line",
        "its place is kept although nobody waits there",
        "acquire_else",
        "if not new then\n    forget_ticket()\nend\n",
        "",
    ),
    lua(
        "the whole wait has no end",
        "wait_timeout bounds each countdown, and never their sum",
        "_asking",
        "    elseif left <= 0 then\n",
        "    elseif false then\n",
    ),
    lua(
        "the wait begins anew with each delivery",
        "a wait is as old as its last refusal",
        "_asking",
        "waited = claims[n], math.max(0, now - place_of(ticket))",
        "waited = claims[n], 0 * place_of(ticket)",
    ),
    lua(
        "the delay ignores the mean",
        "a second is about right for every task",
        "_asking",
        "(claim.at.mean or 1000000)",
        "1000000",
    ),
    lua(
        "the delay ignores the position",
        "all come back at once: the storm that positions are for",
        "_asking",
        "jitter * (turn + 1) / claim.limit",
        "jitter / claim.limit",
    ),
    lua(
        "the delay ignores the grace",
        "asked again and again while the store recovers",
        "_asking",
        "seconds = math.max(seconds, grace_until - now)",
        "seconds = math.max(seconds, 0)",
    ),
    lua(
        "who would not wait gets a ticket",
        "drop and fail leave a line of waiters that never come",
        "_asking",
        '    if kind == "" or reason == "released" then\n',
        '    if reason == "released" then\n',
    ),
]

HANDING_ON = [
    lua(
        "newcomers overtake the parked",
        "a free permit goes to whoever asks, and the parked wait on",
        "_line",
        '    if ahead(at, at.parked, ticket, claim.limit) then return "saturated" end\n',
        "",
    ),
    lua(
        "a ticket without a message is granted",
        "it has a place, so it has a turn; but nobody can be sent",
        "_line",
        "    if payload then\n",
        '    if payload or info.kind == "park" then\n',
    ),
    lua(
        "an unsatisfiable head blocks its line",
        "in order means in order, even if the first can never run",
        "_hand_on",
        "        return skipped + 1\n",
        "        return nil\n",
    ),
    lua(
        "an unsatisfiable head blocks newcomers",
        "whoever was parked before goes first, even if it can never run",
        "_line",
        "        if weight <= limit then\n",
        "        if weight then\n",
    ),
    lua(
        "a grant needs one of its claims",
        "the one whose permit was just given back",
        "_hand_on",
        "    for n = 2, #claims do\n",
        "    for n = 2, 0 do\n",
    ),
    lua(
        "a moved head loses its message",
        "it stands in the other line, but as one that comes back by itself",
        "_hand_on",
        'stand(other, ticket, info, call("HGET", home.payloads, ticket))',
        "info.due = now\n        stand(other, ticket, info, nil)",
    ),
    lua(
        "a grant that nobody takes up is gone",
        "who was told died before it could publish the message",
        "_ends",
        '            call("ZADD", at.parked, 0, name)\n',
        "            local _ = name\n",
    ),
    lua(
        "a grant never ends",
        "whoever was granted will come",
        "_hand_on",
        "write(claim.at, ticket, claim.weight, permit, now + TAKE_UP)",
        "write(claim.at, ticket, claim.weight, permit, now + 1000 * TAKE_UP)",
    ),
    lua(
        "a grant is taken up twice",
        "the grant stays beside the permit that came of it",
        "acquire_else",
        "        erase(claim.at, ticket)\n",
        "        local _ = ticket\n",
    ),
    lua(
        "a grant for other claims is taken up",
        "the task's options changed while it was parked",
        "acquire_else",
        "    grant, whole = held(claims, ticket)\n",
        "    grant = held(claims, ticket)\n    whole = grant\n",
    ),
    lua(
        "a repeated release grants nothing",
        "its first answer was lost, and with it the message that was handed on",
        "release_else",
        "        handed_on(at, holder)\n",
        "        local _ = at\n",
    ),
    lua(
        "a repeated release repeats everybody's grants",
        "what was handed on and not taken up is told to all, and published often",
        "_hand_on",
        'if permit and info and permit.by == "g" .. by then',
        'if permit and info and permit.by ~= "" then',
    ),
    lua(
        "a freed permit is handed on once",
        "the first in line gets what a heavy holder leaves, the others wait for a reaper",
        "_hand_on",
        "while skipped and tries < 1000 do",
        "while skipped and tries < 1 do",
    ),
    lua(
        "an interrupted hand-on is not looked for",
        "its caller died between two calls, and the resource's next look is a lease away",
        "_hand_on",
        "local look = (again or #undeclared > 0) and now or nil",
        "local look = nil",
        tests=LOSSES,
    ),
    lua(
        "attaching grants nothing",
        "the permit came back between the refusal and the message: it waits for the next release",
        "attach",
        "return answer_hand_on(ticket)",
        "return {epoch, 0, {}, {}}",
    ),
]

OPERATORS = [
    lua(
        "an operator's limit is ignored",
        "a limit is what the tasks declare",
        "_permits",
        "return by_operator(at) or known(at).declared or declared",
        "return known(at).declared or declared",
    ),
    lua(
        "a semaphore's limit goes before its key's",
        "what holds for all holds for each",
        "_permits",
        "return tonumber(set[1] or set[2])",
        "return tonumber(set[2] or set[1])",
    ),
    lua(
        "a key's semaphore is not asked about",
        "an operator's limit holds for the very resource it names",
        "_permits",
        "return tonumber(set[1] or set[2])",
        "return tonumber(set[1])",
    ),
    lua(
        "an operator cannot raise a limit",
        "the smaller of the two is safer",
        "_permits",
        "return by_operator(at) or known(at).declared or declared",
        "local set, own = by_operator(at), known(at).declared or declared\n"
        "    return set and own and math.min(set, own) or set or own",
    ),
    lua(
        "the first declaration decides",
        "a deployment with another limit changes nothing",
        "acquire",
        "    if known(at, holder).declared ~= claim.limit then",
        "    if not known(at, holder).declared then",
    ),
    lua(
        "limit 0 is no limit",
        "as in so many programs",
        "_permits",
        'if claim.limit == 0 then return "paused" end',
        "if claim.limit == 0 then return nil end",
    ),
    lua(
        "a limit that is set is not noted",
        "nobody looks for limits in a store that had none when it began",
        "set_limit",
        'call("HSET", EPOCH, "limited", call("EXISTS", LIMITS))\n',
        "",
    ),
    lua(
        "limits are forgotten with the memory",
        "a new record in the store knows of no limit",
        "_memory",
        'limited = call("EXISTS", LIMITS) == 1',
        "limited = false",
        tests=LOSSES,
    ),
    lua(
        "clearing a limit clears nothing",
        "an empty text is stored as a limit",
        "set_limit",
        '    call("HDEL", LIMITS, arg(1))\n',
        "    local _ = LIMITS\n",
    ),
]

KEYS_LEFT = [
    lua(
        "idle keys stay for ever",
        "one hash for each tenant that ever was",
        "_memory",
        '        call("PEXPIRE", at.ledger, math.ceil(LEASE / 100)) -- ten leases, in ms\n',
        "",
        tests=KEYS,
    ),
    lua(
        "keys in use carry an expiry",
        "volatile-* eviction takes what remembers the tokens",
        "_memory",
        '    call("PERSIST", at.ledger)\n',
        "",
        tests=KEYS,
    ),
    lua(
        "permits expire by themselves",
        "the server ends leases for us, and its eviction the permits of those who live",
        "_permits",
        '    call("ZADD", at.holders, ends, name)\n',
        '    call("ZADD", at.holders, ends, name)\n'
        '    call("PEXPIRE", at.holders, math.ceil(LEASE / 1000))\n',
        tests=KEYS,
    ),
    lua(
        "the index is not cleaned",
        "what nobody uses is looked at for ever",
        "_memory",
        '        call("ZREM", INDEX, at.name)\n    else',
        "    else",
    ),
    lua(
        "the next look is a lease away",
        "reaping comes late where a lease ends earlier",
        "reap",
        'look = math.min(look, tonumber(call("ZRANGE", line, 0, 0, "WITHSCORES")[2]) or look)',
        'look = math.min(look, call("ZCARD", line) + look)',
    ),
    lua(
        "a number has 14 digits",
        "Lua's own conversion rounds what a token and an epoch need",
        "_permits",
        'string.format("%.0f %.0f %d ", permit.token, permit.since, weight)',
        'permit.token .. " " .. permit.since .. " " .. weight .. " "',
    ),
]

MUTANTS = (
    *ADMISSION,
    *ENDS,
    *RENEWALS,
    *MEMORY,
    *LINES,
    *HANDING_ON,
    *OPERATORS,
    *KEYS_LEFT,
)
