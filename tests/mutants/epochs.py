"""Wrong ideas about a store that forgot something."""

from __future__ import annotations

from dataclasses import replace

from .lua import LOSSES, lua
from .mutant import Group
from .postgresql import USED, postgresql

SUITE = "tests/stores/test_conformance.py"
MEMORY = (f"{SUITE}::TestMemoryStore",)
RESTARTS = "tests/stores/test_restarts.py"

memory = Group("memory", "celery_semaphore/stores/memory", tests=MEMORY)

IN_GRACE = ("-k", "began_in_the_grace")
LATE_WORDS = [
    lua(
        "the end of a grace is as good as a lease",
        "whoever waits there is looked at when a permit is given back",
        "_own_wait",
        "in_grace and grace_until or kept_room.comes_at(at)",
        "kept_room.comes_at(at)",
        tests=(f"{SUITE}::TestValkeyStore", *IN_GRACE),
    ),
    postgresql(
        "the end of a grace is as good as a lease",
        "whoever waits there is looked at when a permit is given back",
        "v1/refuse.sql",
        "    IF _m.in_grace THEN\n        PERFORM celery_semaphore.v1_mark_in_use",
        "    IF false THEN\n        PERFORM celery_semaphore.v1_mark_in_use",
        tests=(f"{SUITE}::TestPostgresStore", *IN_GRACE),
    ),
    lua(
        "an end is as good as the next",
        "it was sent; but by another worker, and it was an earlier message",
        "sent",
        ' and tonumber(call("ZSCORE", at.due, nonce)) == until_when\n',
        "\n",
    ),
    postgresql(
        "an end is as good as the next",
        "it was sent; but by another worker, and it was an earlier message",
        "v1/outbox.sql",
        "AND w.state = 'ended' AND w.ends = sent.ends;",
        "AND w.state = 'ended';",
    ),
    memory(
        "an end is as good as the next",
        "it was sent; but by another worker, and it was an earlier message",
        "outbox",
        " and waiter.ended and waiter.ends == microseconds(until):",
        " and waiter.ended:",
    ),
]

TOLD = [
    lua(
        "the grace is told when it is over, too",
        "an operator sees that its time has passed",
        "snapshot",
        'in_grace and grace_until or "",',
        "grace_until,",
        f"{SUITE}::TestValkeyStore::test_a_snapshot_tells_the_end_of_the_grace",
    ),
    postgresql(
        "the grace is told when it is over, too",
        "an operator sees that its time has passed",
        "v1/view.sql",
        "CASE WHEN m.in_grace THEN m.grace_until END",
        "m.grace_until",
        f"{SUITE}::TestPostgresStore::test_a_snapshot_tells_the_end_of_the_grace",
    ),
    memory(
        "the grace is told when it is over, too",
        "an operator sees that its time has passed",
        "view",
        "seconds(state.epoch.grace_until) if state.in_grace else None",
        "seconds(state.epoch.grace_until)",
    ),
    memory(
        "a wait whose time was over while it was granted is forgotten",
        "it was in transit for long enough",
        "resource",
        "if nonce in self.grants or nonce in not_taken_up:",
        "if nonce in self.grants:",
    ),
]

LOST_HAND_OVERS = [
    lua(
        "the dead fill the places of the living",
        "the store remembers them, so they hold their permits",
        "_holding",
        "if permit and permit.confirmed then",
        "if permit then",
    ),
    lua(
        "a dead holder is renewed beside the living",
        "its permit is there",
        "_holding",
        'if not mine.confirmed and (mine.by ~= "" or not holding.has_room_for_living(claim, name)) then',
        'if not mine.confirmed and mine.by ~= "" then',
    ),
    lua(
        "a grant of before the loss is taken up",
        "it is there, so it was not taken up yet",
        "_holding",
        'if not mine.confirmed and (mine.by ~= "" or not holding.has_room',
        "if not mine.confirmed and (not holding.has_room",
    ),
    lua(
        "a lowered limit bites those that run",
        "after a loss no more than the limit may be renewed",
        "_holding",
        "math.max(limit, at.survived)",
        "limit",
    ),
    lua(
        "what was put back was remembered",
        "it is there as all others are",
        "_holding",
        "if permit and not permit.restored then",
        "if permit then",
    ),
    lua(
        "a renewal forgets that a permit was put back",
        "it is as good as all others now",
        "_holding",
        "claim.restored = mine and mine.restored",
        "claim.restored = false",
    ),
    lua(
        "put back once is put back for ever",
        "the next epoch needs no other account",
        "renew",
        "LEASE_END, lately and claim.restored)",
        "LEASE_END, claim.restored)",
    ),
    lua(
        "what was restored is as good as all others though the dead are spared",
        "a lease is over",
        "renew",
        "permits_ended_by < grace_until + slowest",
        "now < grace_until + slowest",
    ),
    lua(
        "the next epoch forgets that a permit was put back",
        "all that it begins with was admitted once; but this one in the place of the dead",
        "_records",
        'restored = by == "r",',
        'restored = confirmed and by == "r",',
    ),
    lua(
        "one was put back, and each that is remembered lives",
        "it is one of those that this epoch began with",
        "_holding",
        'and call("HGET", at.ledger, "restored") ~= EPOCH_WRITTEN then',
        "then",
    ),
    lua(
        "a renewal with another weight is what is remembered",
        "the holder is there",
        "_holding",
        "if mine and mine.weight == claim.weight and not mine.restored",
        "if mine and not mine.restored",
    ),
    lua(
        "what was read of all is not read again",
        "the renewals of one call count what the first one found",
        "_holding",
        "    if at.permits then\n        local record",
        "    if false then\n        local record",
    ),
    lua(
        "its own weight is counted beside it",
        "it lives, so it takes a place",
        "_holding",
        "living = living - (its and its.confirmed and its.weight or 0)",
        "living = living - 0",
        tests=LOSSES,
    ),
    postgresql(
        "the dead fill the places of the living",
        "the store remembers them, so they hold their permits",
        "v1/permits.sql",
        "sum(p.weight) FILTER (WHERE p.epoch = _m.epoch AND p.holder = ANY (_own) IS NOT TRUE), 0)",
        "sum(p.weight) FILTER (WHERE p.holder = ANY (_own) IS NOT TRUE), 0)",
    ),
    postgresql(
        "a dead holder is renewed beside the living",
        "its permit is there",
        "v1/permits.sql",
        "ELSE celery_semaphore.v1_has_room_to_restore(p.resource, p.weight, asked.in_force, ARRAY[_name], _m)",
        "ELSE true",
    ),
    postgresql(
        "a grant of before the loss is taken up",
        "it is there, so it was not taken up yet",
        "v1/permits.sql",
        "            WHEN p.granted THEN false\n",
        "",
    ),
    postgresql(
        "a lowered limit bites those that run",
        "after a loss no more than the limit may be renewed",
        "v1/permits.sql",
        "<= greatest(_limit, survived)",
        "<= _limit",
    ),
    postgresql(
        "what was put back was remembered",
        "it is there as all others are",
        "v1/renew.sql",
        "restored[n] := NOT EXISTS (",
        "restored[n] := false AND NOT EXISTS (",
    ),
    postgresql(
        "a renewal forgets that a permit was put back",
        "it is as good as all others now",
        "v1/renew.sql",
        " AND p.holder IN (_p.holder, given_to) AND NOT p.restored);",
        " AND p.holder IN (_p.holder, given_to));",
    ),
    postgresql(
        "put back once is put back for ever",
        "the next epoch needs no other account",
        "v1/renew.sql",
        "    IF _m.permits_ended_by < _m.grace_until + _m.slowest THEN -- A21",
        "    IF true THEN",
    ),
    postgresql(
        "what was restored is as good as all others though the dead are spared",
        "a lease is over",
        "v1/renew.sql",
        "_m.permits_ended_by < _m.grace_until + _m.slowest",
        "_m.now < _m.grace_until + _m.slowest",
    ),
    postgresql(
        "the next epoch forgets that a permit was put back",
        "all that it begins with was admitted once; but this one in the place of the dead",
        "v1/permits.sql",
        "FILTER (WHERE NOT p.restored)",
        "FILTER (WHERE NOT (p.restored AND p.epoch = _m.epoch))",
    ),
    postgresql(
        "most permits are of any epoch",
        "a newcomer's permit is as good as one that is only remembered",
        "v1/acquire.sql",
        "epoch = answer.epoch, restored = false",
        "restored = false",
        tests=USED,
    ),
    memory(
        "the dead fill the places of the living",
        "the store remembers them, so they hold their permits",
        "resource",
        "for entry in self.entries(without=own) if entry.epoch == epoch)",
        "for entry in self.entries(without=own) if entry.epoch == epoch or not entry.restored)",
    ),
    lua(
        "a grant is looked for among all holders",
        "there are few of them",
        "renew",
        'local grant = call("HGET", at.ledger, string.format("for:%.0f", one.permit.token))',
        'local grant = call("HGET", at.ledger, string.format("for:%.0f", one.permit.token))\n'
        '        for _, name in ipairs(call("ZRANGE", at.holders, 0, -1)) do holders.read(at, name) end',
        tests=("tests/stores/test_redis.py", "-k", "beside_many"),
    ),
    lua(
        "a token finds its grant for ever",
        "the ledger is dropped when its resource is idle",
        "_records",
        '        call("HDEL", at.ledger, string.format("for:%.0f", permit.token))\n',
        "        local _ = permit\n",
        tests=("tests/stores/test_redis.py", "-k", "grants_that_ended"),
    ),
    memory(
        "a lowered limit bites those that run",
        "after a loss no more than the limit may be renewed",
        "resource",
        "max(limit, survived)",
        "limit",
    ),
    memory(
        "put back once is put back for ever",
        "the next epoch needs no other account",
        "renew",
        "for name in names if lately and not",
        "for name in names if not",
    ),
    memory(
        "what was restored is as good as all others though the dead are spared",
        "a lease is over",
        "renew",
        "ended_by = state.epoch.permits_ended_by(state.now)",
        "ended_by = state.now",
    ),
    memory(
        "the next epoch forgets that a permit was put back",
        "all that it begins with was admitted once; but this one in the place of the dead",
        "resource",
        "for entry in self.entries() if not entry.restored)",
        "for entry in self.entries() if not (entry.restored and entry.epoch == epoch))",
    ),
    memory(
        "a grant of before the loss is taken up",
        "it is there, so it was not taken up yet",
        "state",
        "(entry.granted or not self.has_room_for_living(claim))",
        "(not self.has_room_for_living(claim))",
    ),
]

GOING_BACK = [
    lua(
        "a server that never restarted forgot nothing",
        "its run is the same, and its data is complete",
        "_prelude",
        "if not epoch or restarted or known_epoch and known_epoch > epoch then",
        "if not epoch or restarted then",
    ),
    lua(
        "a caller that knows another epoch begins a new one",
        "one of the two is wrong",
        "_prelude",
        "if not epoch or restarted or known_epoch and known_epoch > epoch then",
        "if not epoch or restarted or known_epoch and known_epoch ~= epoch then",
    ),
    lua(
        "a run of the server that was unknown at first stays so",
        "its record has all that its first caller knew",
        "_prelude",
        'if run == "" and ARGV[4] ~= "" then',
        "if false then",
        tests=("tests/stores/test_redis.py", "-k", "RunId"),
    ),
    postgresql(
        "a server that never restarted forgot nothing",
        "its run is the same, and its data is complete",
        "v1/epoch.sql",
        "WHERE e.started <> run OR e.id < known;",
        "WHERE e.started <> run;",
    ),
    postgresql(
        "a caller that knows another epoch begins a new one",
        "one of the two is wrong",
        "v1/epoch.sql",
        "WHERE e.started <> run OR e.id < known;",
        "WHERE e.started <> run OR e.id <> known;",
    ),
    memory(
        "a store that never restarted forgot nothing",
        "its data is complete",
        "epoch",
        "or self.restarted or known > self.id:",
        "or self.restarted:",
    ),
]

CLOCK_STEPS = [
    lua(
        "the grace lasts until its time has come",
        "the clock steps back, and nobody is admitted for as long",
        "_prelude",
        "if grace_until > now and grace_until > furthest() then",
        "if false then",
    ),
    lua(
        "a lease ends when its time has come",
        "the clock steps back, and a dead holder's permit is gone for as long",
        "_expiry",
        "    cut(at)\n",
        "",
    ),
    lua(
        "a resource is looked at when its time has come",
        "what ends there is found when somebody asks",
        "overdue",
        "if #names < most then",
        "if false then",
    ),
    lua(
        "a permit is held for less than no time",
        "what the clock says is so",
        "release",
        "math.max(0, now - permit.since)",
        "now - permit.since",
    ),
    memory(
        "a permit is held for less than no time",
        "what the clock says is so",
        "release",
        "max(0, state.now - entry.since)",
        "state.now - entry.since",
    ),
    postgresql(
        "the grace lasts until its time has come",
        "the clock steps back, and nobody is admitted for as long",
        "v1/epoch.sql",
        "    IF epoch.grace_until > furthest THEN\n",
        "    IF false THEN\n",
    ),
    postgresql(
        "a lease ends when its time has come",
        "the clock steps back, and a dead holder's permit is gone for as long",
        "v1/resource.sql",
        "IF at.last_end > celery_semaphore.v1_latest_end(_m.now, _m.slowest, _m.take_up) THEN",
        "IF false THEN",
    ),
    postgresql(
        "a resource is looked at when its time has come",
        "what ends there is found when somebody asks",
        "v1/reap.sql",
        "WHERE r.reap_at > now + 13 * _call.lease",
        "WHERE false",
    ),
    memory(
        "the grace lasts until its time has come",
        "the clock steps back, and nobody is admitted for as long",
        "epoch",
        "        self.grace_until = min(self.grace_until, self.furthest(now))\n",
        "",
    ),
    memory(
        "a lease ends when its time has come",
        "the clock steps back, and a dead holder's permit is gone for as long",
        "state",
        "            at.cut(self.now, self.epoch.furthest(self.now))\n",
        "",
    ),
]

# Real processes, keepers and servers notice it too.
SERVERS = {
    "lua/the dead fill the places of the living": "valkey",
    "postgresql/the dead fill the places of the living": "postgres",
}
RESTARTED = [
    replace(each, name=f"{each.name} that run", tests=(RESTARTS, "-k", SERVERS[each.name]))
    for each in LOST_HAND_OVERS
    if each.name in SERVERS
]

MUTANTS = (*LATE_WORDS, *TOLD, *LOST_HAND_OVERS, *GOING_BACK, *CLOCK_STEPS, *RESTARTED)
