"""Wrong ideas about permits in Redis and PostgreSQL: who gets one, who gives it back, and when its lease ends."""

from __future__ import annotations

from .mutant import Group

lua = Group(
    "lua",
    "celery_semaphore/stores/redis/lua",
    ".lua",
    ("tests/stores/test_conformance.py::TestValkeyStore",),
)
upkeep = Group("upkeep", "celery_semaphore/stores")
postgresql = Group(
    "postgresql",
    "celery_semaphore/stores/postgresql/v1",
    ".sql",
    ("tests/stores/test_conformance.py::TestWholeUsedPostgresStore",),
)
short = Group(
    "short",
    "celery_semaphore/stores/postgresql/v1",
    ".sql",
    ("tests/stores/postgresql/test_short_ways.py",),
)
outside = Group("outside", "celery_semaphore")

MUTANTS = (
    lua(
        "one above the limit",
        "the weight that asks is not added to what is occupied",
        "_permits",
        "if claim.occupied + claim.weight > claim.limit then",
        "if claim.occupied > claim.limit then",
    ),
    lua(
        "the short way admits the buried",
        "who has no permit any more asks for a new one",
        "acquire",
        " and not permits.was_released(at, holder)",
        "",
    ),
    lua(
        "overdue leases still count",
        "nobody ends a lease but the reaper",
        "_expiry",
        'call("ZRANGEBYSCORE", at.holders, "-inf", now, "LIMIT", 0, AT_ONCE)',
        'call("ZRANGEBYSCORE", at.holders, "-inf", "-inf", "LIMIT", 0, AT_ONCE)',
    ),
    lua(
        "a repeated acquire is a second permit",
        "the answer was lost, and the repetition is refused or counted twice",
        "acquire_slow_path",
        "if complete then\n",
        "if complete and false then\n",
    ),
    lua(
        "a refused multi-claim keeps its first permit",
        "claims are taken one by one, and nobody gives the first back",
        "acquire_slow_path",
        "        return own_wait.refuse(refusing, reason)\n",
        (
            "        if refusing > 1 then\n"
            '            permits.write(resources[1], holder, 1, {token = now, since = now, by = ""}, now + LEASE)\n'
            "        end\n"
            "        return own_wait.refuse(refusing, reason)\n"
        ),
    ),
    lua(
        "a token is the clock",
        "two admissions in one microsecond, or a clock that goes back, give tokens that do not grow",
        "_permits",
        "token = math.max(token, permits.known(claim.at).token + 1)",
        "token = math.max(token, 0 * permits.known(claim.at).token)",
    ),
    lua(
        "a release does not bury",
        "an acquire or a renewal that the network delivers late brings the permit back",
        "release",
        "    records.mark_released(at, holder)\n",
        "",
    ),
    lua(
        "a lease that ended does not bury",
        "who was declared dead asks again and runs beside its successor",
        "_expiry",
        "        records.mark_released(at, name)\n",
        "",
    ),
    lua(
        "anybody may release",
        "a release frees a permit of the resource, whoever holds it",
        "release",
        "    records.mark_released(at, holder)\n",
        (
            '    records.erase(at, call("ZRANGE", at.holders, 0, 0)[1] or holder)\n'
            "    records.mark_released(at, holder)\n"
        ),
    ),
    lua(
        "a renewal revives the released",
        "it was sent before the release and arrives after it",
        "renew",
        "if permits.was_released(claim.at, one.holder) or not holding.has_room_for_living",
        "if not holding.has_room_for_living",
    ),
    lua(
        "a permit on some of its claims is one",
        "part of it was evicted, and the rest is still renewed",
        "renew",
        "if part then\n",
        "if false then\n",
        "tests/stores/test_redis.py::TestPartialLoss",
        "tests/stores/test_redis.py::TestHandOnInSeveralCalls",
        "-k",
        "valkey",
    ),
    lua(
        "keys in use carry an expiry",
        "volatile-* eviction takes what remembers the tokens",
        "_index",
        '    call("PERSIST", at.ledger)\n',
        "",
        "tests/stores/test_redis.py::TestKeys",
        "-k",
        "valkey",
    ),
    lua(
        "a renewal first writes what takes memory",
        "it only replaces what is there",
        "renew",
        "    even_if_full()\n",
        "",
        "tests/stores/test_full.py",
        "-k",
        "valkey",
    ),
    upkeep(
        "one error in a batch is the batch's",
        "all were sent together",
        "redis/runner",
        "    if not lenient or not is_final(said(answer)):\n",
        "    if True:\n",
        "tests/stores/test_faults.py::TestRefusals",
        "-k",
        "one_of_many_renewals and not redis",
    ),
    postgresql(
        "who asks is new",
        "an answer that is lost is asked for again",
        "acquire",
        " AND held.mine IS NOT TRUE",
        "",
    ),
    postgresql(
        "who was released does not ask",
        "its call was on its way",
        "acquire",
        (
            "            WHERE d.holder = celery_semaphore.v1_digest(home, _a.holder) AND d.until + 0 > _now\n"
            "        ) IS NULL\n"
            "        AND (SELECT true FROM celery_semaphore.waiter"
        ),
        (
            "            WHERE false\n"
            "        ) IS NULL\n"
            "        AND (SELECT true FROM celery_semaphore.waiter"
        ),
    ),
    postgresql(
        "who gave its permit back is done",
        "its call may still be on its way",
        "release",
        "            done := celery_semaphore.v1_mark_released(home, _holder, now + _call.lease);\n",
        "",
    ),
    short(
        "no new holder of several needs a row",
        "its permit would be written on some of its claims",
        "acquire",
        "has_rows AND at.free IS NOT NULL",
        "at.free IS NOT NULL",
    ),
    short(
        "what is given back of several is free",
        "somebody came to wait for one of them while it waited for the lock",
        "release",
        " OR celery_semaphore.v1_have_waits(_resources) THEN",
        " THEN",
    ),
    short(
        "who was released takes up",
        "its call was on its way",
        "acquire",
        (
            "        WHERE d.holder = celery_semaphore.v1_digest(home, _a.holder) AND d.until + 0 > _now\n"
            "    ) IS NULL\n"
            "    RETURNING"
        ),
        ("        WHERE false\n    ) IS NULL\n    RETURNING"),
    ),
    outside(
        "a release without an answer is left to the lease",
        "the permit is free soon enough",
        "semaphore",
        "            self._release_later(permit, was_held=True)\n            outage_of",
        "            outage_of",
        "tests/semaphore/test_faults.py::TestFailingStore::test_a_release_that_fails_is_repeated",
    ),
    outside(
        "what an interrupted call got is renewed",
        "it is released anyway; but a renewal brings it back, and nobody has its name",
        "semaphore",
        "            held_permits_in(self._store).take(waiter.holder)\n            waiter.give_up()\n",
        "            waiter.give_up()\n",
        "tests/semaphore/test_interrupted.py::test_an_acquire_leaves_nothing",
    ),
    outside(
        "who is interrupted as it leaves the line stays there",
        "the next question would find out; but the process asks for others",
        "semaphore",
        "            waiter.give_up_later()\n",
        "",
        "tests/semaphore/test_interrupted.py::test_an_acquire_that_times_out_leaves_no_place",
    ),
    outside(
        "only who knows that it waits is asked for no more",
        "an interrupted call does not, and the thread that asks never ends",
        "core/acquisition",
        "            self._asker.discard(self._ticket)\n",
        "            pass\n",
        "tests/semaphore/test_interrupted.py::test_an_acquire_that_times_out_leaves_no_place",
        "tests/core/test_acquisition.py::test_a_call_that_was_interrupted_as_it_began_to_wait",
    ),
    outside(
        "a permit is confirmed until it is sure",
        "its timeout never comes where each renewal is read late",
        "core/acquisition",
        "            if is_renewed and time.monotonic() >= self._deadline:\n",
        "            if False:\n",
        "tests/core/test_acquisition.py",
    ),
    outside(
        "a release after an unknown error is dropped",
        "its permit stays for a lease, and a place in line for as long as the process waits",
        "core/releaser",
        "if is_old else StoreUnavailable(repr(error))]",
        "if True else StoreUnavailable(repr(error))]",
        "tests/core/test_releaser.py",
    ),
)
