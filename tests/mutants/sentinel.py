"""Wrong ideas about a primary that sentinels replace."""

from __future__ import annotations

from .mutant import Group

TESTS = "tests/stores/test_sentinel.py"
FORMER = f"{TESTS}::test_a_former_primary_admits_none"
SILENT = f"{TESTS}::test_silent_sentinels_do_not_hold_up_each_call"

sentinel = Group("sentinel", "celery_semaphore/stores/redis")

MUTANTS = (
    sentinel(
        "sentinels are asked when a connection fails",
        "an open one leads to the primary",
        "connection",
        "        self._finder.look()\n",
        "        if not self._idle:\n            self._finder.look()\n",
        FORMER,
    ),
    sentinel(
        "an open connection leads to the primary",
        "new ones do",
        "primary",
        "        return (connection.host, connection.port) == self.place",
        "        return True",
        FORMER,
    ),
    sentinel(
        "SENTINEL MASTERS names the primary",
        "redis-py takes it from there",
        "sentinels",
        "        return (found[0].decode(), int(found[1])) if found else None",
        "        with redis.Redis(*sentinel) as client:\n"
        "            found = client.sentinel_masters()[self.master]\n"
        '        return found["ip"], found["port"]',
        f"{TESTS}::test_a_replica_that_hangs_keeps_none_at_the_former_primary",
    ),
    sentinel(
        "each call asks the sentinels",
        "it is one more round trip",
        "primary",
        "        if now < self._due and self._known:",
        "        if False:",
        f"{TESTS}::test_many_calls_ask_once",
    ),
    sentinel(
        "silent sentinels are asked as often as others",
        "they have a timeout",
        "primary",
        "            self._due = time.monotonic() + SILENT_S",
        "            self._due = 0.0",
        SILENT,
    ),
    sentinel(
        "silence is told again and again",
        "it goes on",
        "primary",
        "        if not self._silent:\n            logger",
        "        if True:\n            logger",
        f"{TESTS}::test_silence_and_its_end_are_told_once",
    ),
    sentinel(
        "silence fails the call",
        "the primary is unknown",
        "primary",
        "        if not self._known:\n            raise",
        "        if True:\n            raise",
        f"{TESTS}::test_the_primary_goes_on_without_its_sentinels",
    ),
    sentinel(
        "a signal handler asks as well",
        "one more question does no harm",
        "primary",
        "        self._due = now + self._timeout\n",
        "",
        f"{TESTS}::test_a_signal_handler_asks_nothing_meanwhile",
    ),
    sentinel(
        "whoever asks comes to an end",
        "no exception arrives meanwhile",
        "primary",
        "        self._due = now + self._timeout\n",
        "        self._due = float('inf')\n",
        f"{TESTS}::test_an_interruption_delays_the_next_question_only",
    ),
    sentinel(
        "a sentinel that does not answer is asked first again",
        "the URL has them in order",
        "sentinels",
        "                silent[sentinel] = error\n                self.ask_last(sentinel)\n",
        "                silent[sentinel] = error\n",
        f"{TESTS}::test_a_dead_sentinel_is_asked_once",
    ),
    sentinel(
        "each sentinel has the time of all",
        "one of them will answer",
        "sentinels",
        "min(QUESTION_TIMEOUT_S, left)",
        "min(QUESTION_TIMEOUT_S, left * (len(addresses) - n))",
        f"{TESTS}::test_silent_ones_leave_time_for_the_others",
    ),
    sentinel(
        "each question needs a connection",
        "it is a matter of twice a second",
        "sentinels",
        "        self._kept = (os.getpid(), sentinel, connection)\n",
        "",
        f"{TESTS}::test_one_connection_is_kept_and_made_anew",
    ),
    sentinel(
        "a sentinel that closed the connection is silent",
        "it does not answer",
        "sentinels",
        "with suppress(redis.ConnectionError):",
        "with suppress():",
        f"{TESTS}::test_one_connection_is_kept_and_made_anew",
    ),
    sentinel(
        "the first sentinel is right",
        "all say the same",
        "primary",
        "        ask = self._ask_one if self._known else self._ask_all",
        "        ask = self._ask_one",
        f"{TESTS}::test_most_sentinels_decide",
    ),
    sentinel(
        "a sentinel that disagrees may be right the next time",
        "it keeps its place",
        "primary",
        "        self._sentinels.ask_last(*(sentinel for sentinel, named in answers if named != elected))\n",
        "",
        f"{TESTS}::test_most_sentinels_decide",
    ),
    sentinel(
        "of two answers the first holds",
        "there is no other reason",
        "primary",
        "(votes[named], named != failed)",
        "votes[named]",
        f"{TESTS}::test_while_they_disagree_not_the_one_that_failed",
    ),
    sentinel(
        "the last answer holds",
        "it came last",
        "primary",
        "        if asked_at < self._asked_at:",
        "        if False:",
        f"{TESTS}::test_a_late_answer_does_not_hold",
    ),
    sentinel(
        "an unknown name is an outage",
        "the sentinels do not answer with a primary",
        "health",
        "    if isinstance(cause, NoSuchPrimary):",
        "    if False:",
        f"{TESTS}::test_a_name_that_no_sentinel_knows",
    ),
    sentinel(
        "options of sentinels are checked when they are asked",
        "they are redis-py's",
        "url",
        "        new_connection(pool)  # raises TypeError for an option that there is not\n",
        "",
        f"{TESTS}::test_an_option_that_sentinels_do_not_have",
    ),
    sentinel(
        "a call without time for a question leaves it at that",
        "the next one will fail, too",
        "primary",
        "        self._due = 0.0  # if there is no time",
        "        # if there is no time",
        f"{TESTS}::test_after_an_error_the_next_call_asks",
    ),
    sentinel(
        "a question without time finds no sentinel",
        "none answered",
        "primary",
        "        if time.monotonic() < deadline:\n",
        "        if True:\n",
        f"{TESTS}::test_after_an_error_the_next_call_asks",
    ),
)
