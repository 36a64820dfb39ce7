"""Wrong ideas about what a release tells of the waits that it granted."""

from __future__ import annotations

from .asking import SESSION, asking
from .epochs import memory
from .lua import lua
from .moved_waits import on_redis
from .postgresql import postgresql

SUITE = "tests/stores/test_conformance.py"
TELLS = ("-k", "it_tells or the_end_of_a_wait_tells or outgoing_instead")
ON_MEMORY = (f"{SUITE}::TestMemoryStore", *TELLS)
ON_REDIS = (f"{SUITE}::TestValkeyStore", *TELLS)
ON_POSTGRESQL = (f"{SUITE}::TestPostgresStore", *TELLS)

PARKED = ("a parked wait is told, too", "it was granted like the others")
FIRST_CALL = ("only the first call of a hand-on tells", "the others are for what others hold")
LAST_ONE = ("the last grant is told", "a release frees one permit")
NEVER = ("a grant is found by questions", "the store does not know who calls")

IN_STORES = [
    memory(
        *PARKED,
        "handing_on",
        "waiter.nonce for waiter in granted if waiter.session)",
        "waiter.nonce for waiter in granted)",
        tests=ON_MEMORY,
    ),
    lua(
        *PARKED,
        "_hand_on",
        '        call("ZADD", home.outbox, permit.token, nonce)\n',
        '        call("ZADD", home.outbox, permit.token, nonce)\n        table.insert(granted, nonce)\n',
        tests=ON_REDIS,
    ),
    postgresql(
        *PARKED,
        "v1/hand_on.sql",
        "granted := CASE WHEN head.session <> '' THEN head.nonce END;",
        "granted := head.nonce;",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *FIRST_CALL,
        "handing_on",
        "    return outgoing | _hand_on(state, together, granted)\n",
        "    return outgoing | _hand_on(state, together, [])\n",
        tests=ON_MEMORY,
    ),
    on_redis(
        *FIRST_CALL,
        "hand_on",
        "            answer = self._runner.run(scripts.REAP, wanted)\n",
        "            answer = self._runner.run(scripts.REAP, wanted)\n"
        "            answer[4:] = [[] for _ in answer[4:]]\n",
        tests=ON_REDIS,
    ),
    lua(
        *LAST_ONE,
        "_hand_on",
        "        table.insert(granted, nonce)\n",
        "        granted = {nonce}\n",
        tests=ON_REDIS,
    ),
    postgresql(
        *LAST_ONE,
        "v1/hand_on.sql",
        "handed.granted := handed.granted || tried.granted;",
        "handed.granted := ARRAY[tried.granted];",
        tests=ON_POSTGRESQL,
    ),
    postgresql(
        *FIRST_CALL,
        "runner.py",
        '            said = self.run("reap", names)\n',
        '            said = [[*row[:4], "{}"] for row in self.run("reap", names)]\n',
        tests=ON_POSTGRESQL,
    ),
    postgresql(
        *NEVER,
        "v1/pass_on.sql",
        "ARRAY[head.nonce]);",
        "'{}'::text[]);",
        tests=ON_POSTGRESQL,
    ),
    postgresql(
        "names are told as they are stored",
        "nearly all are plain",
        "runner.py",
        "granted.update(map(original, texts(nonces)))",
        "granted.update(texts(nonces))",
        tests=(f"{SUITE}::TestPostgresStore", "-k", "line_feed_in_its_name"),
    ),
]

IN_WORKERS = [
    asking(
        "what a release granted is asked for",
        "the next question finds it, some milliseconds later",
        "worker/limiter",
        "            held.session.begin_granted(handed.granted)\n",
        "            pass\n",
        f"{SESSION}::test_a_release_reaches_the_session",
        "tests/worker/holding/test_turns.py::test_what_a_release_of_the_worker_itself_granted_needs_no_question",
    ),
    asking(
        "a child begins what its main process holds",
        "it has a copy of the session, and no loop",
        "worker/limiter",
        "        if os.getpid() != self._main:\n            return\n",
        "",
        f"{SESSION}::test_a_release_reaches_the_session",
    ),
    asking(
        "what a release granted begins where its note was read",
        "that is the releaser's thread, or a signal handler, and only the loop touches held messages",
        "worker/holding/session",
        "            self._in_loop(partial(self._begin, own))\n",
        "            self._begin(own)\n",
        f"{SESSION}::test_it_begins_in_the_loop",
    ),
    asking(
        "each grant needs a visit",
        "most are of other workers",
        "worker/holding/session",
        "        if own := self._held.nonces() & granted:\n",
        "        if own := set(granted):\n",
        f"{SESSION}::test_it_begins_in_the_loop",
    ),
    asking(
        "a session that ended visits",
        "the messages are those of a lost connection",
        "worker/holding/session",
        "        if not self._ended:\n            self._granted.update(own)\n            self.visit()\n",
        "        self._granted.update(own)\n        self.visit()\n",
        f"{SESSION}::test_what_a_release_granted_does_not_begin_after_the_session_ended",
    ),
    asking(
        "the loop reads the note some time",
        "it sleeps until something else wakes it",
        "worker/pool_process/postrun",
        "        if handed.outgoing or handed.granted:\n",
        "        if handed.outgoing:\n",
        "tests/worker/pool_process/test_postrun.py::test_the_loop_is_woken_for_what_a_release_granted",
    ),
    asking(
        "each release wakes the loop",
        "then the note is read at once; but a task that never waits pays for it",
        "worker/pool_process/postrun",
        "        if handed.outgoing or handed.granted:\n",
        "        if True:\n",
        "tests/worker/pool_process/test_postrun.py::test_the_loop_is_woken_for_what_a_release_granted",
    ),
    asking(
        "a note tells of messages only",
        "the release was made in another process",
        "worker/permits/note",
        "{_listed(handed.outgoing)},{_listed(handed.granted)}]",
        "{_listed(handed.outgoing)},[]]",
        "tests/worker/messages/test_scheduler.py::test_a_note_of_much_that_was_handed_on",
    ),
]

MUTANTS = (*IN_STORES, *IN_WORKERS)
