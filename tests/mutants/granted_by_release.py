"""Wrong ideas about what a release tells of the waits that it granted."""

from __future__ import annotations

from .asking import MESSAGES, SESSION, asking
from .epochs import memory
from .kept_claims import on_redis
from .lua import lua
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
        "            kept.begin_granted(handed.granted)\n",
        "            pass\n",
        "tests/worker/test_limiter.py::test_a_release_reaches_what_is_kept",
        "tests/worker/keeping/test_turns.py::test_what_a_release_of_the_worker_itself_granted_needs_no_question",
    ),
    asking(
        "a child begins what its main process holds",
        "it has a copy of the session, and no loop",
        "worker/limiter",
        "        if os.getpid() != self._main:\n            return\n",
        "",
        "tests/worker/test_limiter.py::test_a_release_reaches_what_is_kept",
    ),
    asking(
        "what a release granted begins where its note was read",
        "that is the releaser's thread, or a signal handler, and only the loop touches kept messages",
        "worker/keeping/kept_messages",
        "                self._in_loop(partial(self._begin_all, own))\n",
        "                self._begin_all(own)\n",
        f"{MESSAGES}::test_what_a_release_granted_begins_in_the_loop",
    ),
    asking(
        "without a loop it begins at once",
        "the thread that releases permits waits for a free greenlet, or runs the task",
        "worker/keeping/kept_messages",
        "                self._c.timer.call_after(0.0, self._begin_all, (own,))\n",
        "                self._begin_all(own)\n",
        f"{MESSAGES}::test_without_a_loop_it_begins_where_the_timer_begins_a_countdown",
    ),
    asking(
        "it begins without a grant",
        "it stands behind what the pool has waiting, and its grant ends",
        "worker/keeping/kept_messages",
        "        for kept in self.session.messages(nonces):\n            self.begin(kept, granted=True)  # M1\n",
        "        for kept in self.session.messages(nonces):\n            self.begin(kept)\n",
        f"{MESSAGES}::test_what_a_release_granted_begins_in_the_loop",
    ),
    asking(
        "each grant needs a call in the loop",
        "most are of other workers",
        "worker/keeping/kept_messages",
        "self._redelivery is not None and (own := self.session.own(granted)):\n",
        "self._redelivery is not None and (own := self.session.own(granted)) is not None:\n",
        f"{MESSAGES}::test_what_a_release_granted_begins_in_the_loop",
    ),
    asking(
        "a grant that came before its message is forgotten",
        "its refusal is on its way through the pool, and its permit idles until the next question",
        "worker/keeping/session",
        "        self._granted.update(granted)  # first",
        "        #",
        f"{SESSION}::test_what_a_release_granted_while_its_refusal_was_on_its_way_is_asked_for_when_it_arrives",
    ),
    asking(
        "what a release granted is in the last answer",
        "that answer came before it: a wait that is refused again would begin anew",
        "worker/keeping/session",
        "        self._granted.difference_update(kept)\n",
        "",
        f"{SESSION}::test_what_a_release_granted_begins_once",
    ),
    asking(
        "what left meanwhile begins",
        "with gevent the message before it waits for a greenlet, and this one was given back or has begun",
        "worker/keeping/kept_messages",
        "        if kept not in self._messages:  # it left while another one waited for a greenlet\n"
        "            return\n",
        "",
        f"{MESSAGES}::test_what_left_while_another_one_waited_for_a_greenlet_does_not_begin",
        f"{MESSAGES}::test_what_is_begun_early_begins_once",
    ),
    asking(
        "a session that never asks notes grants",
        "they are noted until the next answer",
        "worker/keeping/kept_messages",
        "        if self._redelivery is not None and (own := self.session.own(granted)):\n",
        "        if own := self.session.own(granted):\n",
        f"{MESSAGES}::test_where_nothing_may_be_kept_no_grant_is_noted",
    ),
    asking(
        "the calls for the loop are left to the next worker",
        "its loop makes them, on a connection that is closed",
        "worker/limiter",
        "        self._calls.clear()  # another worker's loop must not make them\n",
        "",
        "tests/worker/test_limiter.py::test_the_next_worker_makes_no_calls_of_this_one",
    ),
    asking(
        "celery has a list of calls for its loop",
        "a signal handler would wait for the lock of the thread that it interrupted",
        "worker/main_process/bootstep",
        "        limiter.in_loop(call)\n",
        "        c.call_soon(call)\n        limiter.waker.wake()\n",
        "tests/worker/main_process/test_bootstep.py::test_a_call_in_the_loop_takes_no_lock_of_the_loop",
    ),
    asking(
        "the loop reads notes only",
        "calls wait for it, too",
        "worker/limiter",
        "        for _ in range(len(self._calls)):\n            self._calls.popleft()()\n",
        "",
        "tests/worker/main_process/test_bootstep.py::test_a_call_in_the_loop_takes_no_lock_of_the_loop",
    ),
    asking(
        "messages are less urgent than grants",
        "a note that is too long names the grants; but a sweep is later than a question",
        "worker/permits/note",
        'note = f"{start},{outgoing},[]]"',
        'note = f"{start},[],{granted}]"',
        "tests/worker/messages/test_scheduler.py::test_a_note_of_much_that_was_handed_on",
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
        "_listed(handed.granted)",
        '"[]"',
        "tests/worker/messages/test_scheduler.py::test_a_note_of_much_that_was_handed_on",
    ),
]

MUTANTS = (*IN_STORES, *IN_WORKERS)
