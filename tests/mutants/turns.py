"""Wrong ideas about whose turn it is, where some wait in the store and some come back by themselves."""

from __future__ import annotations

from .lua import KEYS, lua

COMING_BACK = [
    lua(
        "a freed permit is always for the parked",
        "who comes back by itself takes what is free when it comes: there never is anything",
        "_hand_on",
        "coming[#coming].ticket < head and table.remove(coming)",
        "false",
    ),
    lua(
        "a permit is kept for whoever comes back",
        "all that come back by themselves go before the parked",
        "_hand_on",
        "coming[#coming].ticket < head and table.remove(coming)",
        "table.remove(coming)",
    ),
    lua(
        "a permit is kept until it comes, whenever that is",
        "strict order, and a permit that idles for minutes",
        "_hand_on",
        "now + early + LEASE\n",
        "now + 1000 * early + LEASE\n",
    ),
    lua(
        "a permit is kept for who is late",
        "its message stands in a queue of ten minutes, or is gone",
        "_hand_on",
        'string.format("(%.0f", now - late + LEASE)',
        '"-inf"',
    ),
    lua(
        "a kept permit ends when it is due",
        "a message that is due is there at once",
        "_hand_on",
        "kept_until = due[n + 1] - LEASE + late",
        "kept_until = due[n + 1] - LEASE + 0 * late",
    ),
    lua(
        "a kept permit does not end",
        "whoever waits will come",
        "_hand_on",
        "kept_until = due[n + 1] - LEASE + late",
        "kept_until = due[n + 1] + 100 * late",
    ),
    lua(
        "what is near is a second",
        "a permit of a second may idle for one, and so may one of ten minutes",
        "_hand_on",
        "local mean = tonumber(known(home).mean) or 1000000",
        "local mean = known(home) and 1000000",
    ),
    lua(
        "a permit is kept longer than any other",
        "permits are held for hours, so it may take hours to come",
        "_hand_on",
        "math.min(math.max(mean, LATE), TAKE_UP)",
        "math.max(mean, LATE)",
    ),
    lua(
        "the last to come goes first",
        "the table of those that come back is read from its wrong end",
        "_hand_on",
        "return a.ticket > b.ticket",
        "return a.ticket < b.ticket",
    ),
    lua(
        "callers come back by themselves",
        "whoever is due is expected, so one in the line is handed two permits",
        "_hand_on",
        'if ticket and call("ZSCORE", home.waiters, ticket) and not session_of(home, due[n]) then',
        "if ticket and not session_of(home, due[n]) then",
    ),
    lua(
        "the time a permit was kept counts as held",
        "each idle wait makes the next one longer",
        "acquire_else",
        'since = grant.by == "k" and now or grant.since',
        "since = grant.since",
    ),
    lua(
        "a message attached to a kept permit stays",
        "the permit is kept for who comes back by itself, and its message lies in the store",
        "attach",
        '    call("ZADD", home.outbox, granted.token, nonce)\n',
        "",
    ),
    lua(
        "a message attached to a kept permit takes up one claim",
        "the permit is one, so it is written once",
        "attach",
        "write(claim.at, GRANT .. nonce, claim.weight, granted, now + TAKE_UP)",
        "if claim.at == home then write(claim.at, GRANT .. nonce, claim.weight, granted, now + TAKE_UP) end",
    ),
    lua(
        "a part of a grant is a grant",
        "it was whole when it was made",
        "attach",
        "local granted, whole = held(claims, GRANT .. nonce)",
        "local granted = held(claims, GRANT .. nonce)\nlocal whole = granted",
    ),
    lua(
        "a message attached twice goes out twice",
        "its permit is still kept, so it goes out again",
        "attach",
        '    granted.by = "g"\n',
        "",
    ),
]

UNSATISFIABLE = [
    lua(
        "an unsatisfiable head blocks newcomers",
        "whoever was parked before goes first, even if it can never run",
        "_line",
        "if not ticket or info.weights[at.name] <= most then",
        "if not ticket or true then",
    ),
    lua(
        "a thousand unsatisfiable are all there are",
        "one call looks at so many, and there is no other",
        "_line",
        "    use(at, now) -- whoever looks next goes on\n    return up_to, true\n",
        "    use(at, now) -- whoever looks next goes on\n    return nil\n",
    ),
    lua(
        "what was put aside stays there",
        "nobody raises a limit",
        "_line",
        "    if low and not (limit and limit <= low) then\n",
        "    if false then\n",
    ),
    lua(
        "who was put aside is not before anybody",
        "a position counts those who are in the line",
        "_line",
        'return count + call("ZLEXCOUNT", at.aside, "-", before)',
        "return count",
    ),
    lua(
        "who was put aside cannot be ended",
        "only what is in the line is parked",
        "_ends",
        'call("ZSCORE", at.parked, ticket) or call("ZSCORE", at.aside, ticket)',
        'call("ZSCORE", at.parked, ticket)',
    ),
    lua(
        "who was put aside cannot leave",
        "it is revoked, and stands there for ever",
        "_ends",
        "{at.waiters, at.parked, at.aside} or {}",
        "{at.waiters, at.parked} or {}",
        tests=KEYS,
    ),
    lua(
        "who was put aside is not shown",
        "a snapshot lists the line",
        "snapshot",
        "most > 0 and {at.parked, at.waiters, at.aside} or {}",
        "most > 0 and {at.parked, at.waiters} or {}",
    ),
]

MUTANTS = (*COMING_BACK, *UNSATISFIABLE)
