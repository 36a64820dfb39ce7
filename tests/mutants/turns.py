"""Wrong ideas about whose turn it is: of waits in transit, of those that are granted, and of those that never fit."""

from __future__ import annotations

from .epochs import memory
from .lua import KEYS, lua
from .postgresql import postgresql

IN_TRANSIT = [
    memory(
        "waits in transit stand in line",
        "they wait",
        "state",
        "            if waiter.in_transit or waiter.aside:\n                continue\n            if not self",
        "            if waiter.aside:\n                continue\n            if not waiter.in_transit and not self",
    ),
    memory(
        "a limit that is set passes over what was set aside",
        "it stands in no line",
        "store",
        "        self._state.sweep(wanted)\n",
        "        self._state.end_overdue(wanted)\n",
    ),
    memory(
        "another resource is looked at without what was set aside there",
        "it stands in no line",
        "handing_on",
        "state.sweep([ResourceClaim(name, 0, 0) for name in together])",
        "state.end_overdue([ResourceClaim(name, 0, 0) for name in together])",
    ),
    memory(
        "what was set aside is tried by each call",
        "it is in line",
        "state",
        "if waiter.in_transit or waiter.aside:",
        "if waiter.in_transit:",
    ),
    memory(
        "what was set aside stays there",
        "it can never fit",
        "state",
        "        at.line_up_again(limit)\n",
        "",
    ),
    lua(
        "the place of a wait that named no session is kept for a lease",
        "its message is there as soon as it is due",
        "_own_wait",
        "asked.keeps = kind, now + retry, tonumber(keeps)\n",
        "asked.keeps = kind, now + retry, 0\n",
    ),
    memory(
        "the place of a wait that named no session is kept for a lease",
        "its message is there as soon as it is due",
        "acquisition",
        "due, keeps=keeps\n",
        "due\n",
    ),
    postgresql(
        "a held wait whose grant was ended is in transit",
        "its grant is over",
        "v1/line.sql",
        "ELSIF stood.payload IS NULL AND celery_semaphore.v1_is_out_of_reach",
        "ELSIF stood.payload IS NULL OR celery_semaphore.v1_is_out_of_reach",
    ),
]

ATTACHED_GRANTS = [
    lua(
        "a message is sent with a later grant of its wait",
        "its wait is granted, whatever for",
        "take",
        "ended or grant and grant.token == token",
        "ended or grant",
    ),
    memory(
        "a message is sent with a later grant of its wait",
        "its wait is granted, whatever for",
        "outbox",
        "is_granted = entry is not None and entry.token == sent_with",
        "is_granted = entry is not None",
    ),
    postgresql(
        "a message is sent with a later grant of its wait",
        "its wait is granted, whatever for",
        "v1/resource.sql",
        "SET state = 'in_line', outbox = false\n        WHERE w.id = gone.id",
        "SET state = 'in_line'\n        WHERE w.id = gone.id",
    ),
    lua(
        "a message attached to a grant stays",
        "its session is told of the grant",
        "attach",
        '    call("ZADD", home.outbox, granted.token, nonce)\n',
        "",
    ),
    memory(
        "a message attached to a grant stays",
        "its session is told of the grant",
        "attach",
        "        _send(state, at, waiter)\n",
        "        pass\n",
    ),
    postgresql(
        "a message attached to a grant stays",
        "its session is told of the grant",
        "v1/attach.sql",
        "sends := granted AND coalesce(stood.session <> '', false);",
        "sends := false;",
    ),
    lua(
        "a message attached to a grant prolongs it at one claim",
        "the grant is one, so it is written once",
        "attach",
        'call("ZADD", claim.at.holders, now + waits.TAKE_UP, GRANT .. nonce)',
        'if claim.at == home then call("ZADD", claim.at.holders, now + waits.TAKE_UP, GRANT .. nonce) end',
    ),
    lua(
        "a part of a grant is a grant",
        "it was whole when it was made",
        "attach",
        "local granted, whole = holding.held(claims, GRANT .. nonce)",
        "local granted = holding.held(claims, GRANT .. nonce)\nlocal whole = granted",
    ),
    lua(
        "a message attached twice goes out twice",
        "its permit is granted, so it goes out",
        "attach",
        "if whole and is_held then",
        "if whole then",
    ),
    memory(
        "a message attached twice goes out twice",
        "its permit is granted, so it goes out",
        "attach",
        "elif entry and before and before.session:",
        "elif entry:",
    ),
    postgresql(
        "a message attached twice goes out twice",
        "its permit is granted, so it goes out",
        "v1/attach.sql",
        "sends := granted AND coalesce(stood.session <> '', false);",
        "sends := granted;",
    ),
    lua(
        "a session is told of the grant of a message that was attached",
        "it asked for it",
        "attach",
        "    sessions.tell(before.session, home, nonce) -- E3: the worker that takes the outbox sends it\n",
        "",
    ),
]

SENT = [
    memory(
        "what was sent and is named stands in line",
        "the store does not know it",
        "name",
        "    if waiter.session != session:  # N4",
        "    if waiter.session not in (session, ''):",
    ),
    memory(
        "what was sent long ago is still on its way",
        "it has a grant",
        "name",
        "if at and at.was_sent(ticket.nonce) and state.is_over(at.grants[ticket.nonce]):",
        "if False:",
    ),
    memory(
        "what was sent before a restart comes no more",
        "its grant has ended",
        "name",
        "state.is_over(at.grants[ticket.nonce])",
        "at.grants[ticket.nonce].ends <= state.now",
    ),
    lua(
        "what was sent long ago is still on its way",
        "it has a grant",
        "name",
        " and is_over(granted_until(at, nonce), true) then",
        " and false then",
    ),
    lua(
        "what was sent before a restart comes no more",
        "its grant has ended",
        "name",
        " and is_over(granted_until(at, nonce), true) then",
        " and granted_until(at, nonce) <= now then",
    ),
    memory(
        "what was sent long ago keeps its grant",
        "it has ended, and does no harm",
        "name",
        "        state.taken_up(wanted, ticket.nonce)\n        waiter = StoredWait(",
        "        waiter = StoredWait(",
    ),
    lua(
        "what was sent long ago keeps its grant",
        "it has ended, and does no harm",
        "name",
        "        holders.take_back(at, nonce) -- its end would",
        "        -- its end would",
    ),
    postgresql(
        "what was sent long ago keeps its grant",
        "it has ended, and does no harm",
        "v1/name.sql",
        "held.resources, m.now);",
        "held.resources, m.now) WHERE false;",
    ),
    postgresql(
        "what was sent long ago is still on its way",
        "it has a grant",
        "v1/name.sql",
        "NOT may_stay AND NOT _m.in_grace THEN",
        "false THEN",
    ),
    postgresql(
        "what was sent before a restart comes no more",
        "its grant has ended",
        "v1/name.sql",
        "NOT may_stay AND NOT _m.in_grace THEN",
        "NOT may_stay THEN",
    ),
    lua(
        "what was sent and is named stands in line",
        "the store does not know it",
        "name",
        "elseif known.session ~= session then -- N4",
        "elseif known.session and known.session ~= session then",
    ),
    postgresql(
        "what was sent and is named stands in line",
        "the store does not know it",
        "v1/name.sql",
        "ELSIF known.session <> _session THEN",
        "ELSIF known.session NOT IN (_session, '') THEN",
    ),
]

UNSATISFIABLE = [
    lua(
        "an unsatisfiable head blocks newcomers",
        "whoever was parked before goes first, even if it can never run",
        "_line",
        "elseif info.weights[at.name] > most then",
        "elseif false then",
    ),
    lua(
        "a thousand unsatisfiable are all there are",
        "one call looks at so many, and there is no other",
        "_line",
        "    index.mark_in_use(at, now) -- the next reaper continues\n    return up_to, true\n",
        "    index.mark_in_use(at, now) -- the next reaper continues\n    return nil\n",
    ),
    lua(
        "what was put aside stays there",
        "nobody raises a limit",
        "_line",
        "    if too_heavy_above and not (limit and limit <= too_heavy_above) then\n",
        "    if false then\n",
    ),
    lua(
        "who was put aside is not before anybody",
        "a position counts those who are in the line",
        "_line",
        ' + call("ZLEXCOUNT", at.aside, "-", before)',
        "",
    ),
    lua(
        "who was put aside cannot be ended",
        "only what is in the line is parked",
        "_waits",
        'call("ZSCORE", at.line, ticket) or call("ZSCORE", at.aside, ticket)',
        'call("ZSCORE", at.line, ticket)',
    ),
    lua(
        "who was put aside cannot leave",
        "it is revoked, and stands there for ever",
        "_waits",
        "{at.transit, at.line, at.aside} or {}",
        "{at.transit, at.line} or {}",
        tests=KEYS,
    ),
    lua(
        "who was put aside is not shown",
        "a snapshot lists the line",
        "snapshot",
        "most > 0 and {at.line, at.transit, at.aside} or {}",
        "most > 0 and {at.line, at.transit} or {}",
    ),
]

MUTANTS = (*IN_TRANSIT, *ATTACHED_GRANTS, *SENT, *UNSATISFIABLE)
