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
        "sentinel",
        "        return (connection.host, connection.port) == self.place",
        "        return True",
        FORMER,
    ),
    sentinel(
        "SENTINEL MASTERS names the primary",
        "redis-py takes it from there",
        "sentinel",
        "        return (found[0].decode(), int(found[1])) if found else None",
        "        with redis.Redis(*sentinel) as client:\n"
        "            found = client.sentinel_masters()[self._master]\n"
        '        return found["ip"], found["port"]',
        f"{TESTS}::test_a_replica_that_hangs_keeps_none_at_the_former_primary",
    ),
    sentinel(
        "each call asks the sentinels",
        "it is one more round trip",
        "sentinel",
        "        if now < self._due and self._known:",
        "        if False:",
        f"{TESTS}::test_many_calls_ask_once",
    ),
    sentinel(
        "silent sentinels are asked as often as others",
        "they have a timeout",
        "sentinel",
        "        self._due = time.monotonic() + SILENT_S",
        "        self._due = 0.0",
        SILENT,
    ),
    sentinel(
        "silence is told again and again",
        "it goes on",
        "sentinel",
        "        if not self._silent:\n            logger",
        "        if True:\n            logger",
        f"{TESTS}::test_silence_and_its_end_are_told_once",
    ),
    sentinel(
        "silence fails the call",
        "the primary is unknown",
        "sentinel",
        "        if not self._known:\n            raise",
        "        if True:\n            raise",
        f"{TESTS}::test_the_primary_goes_on_without_its_sentinels",
    ),
    sentinel(
        "a signal handler asks as well",
        "one more question does no harm",
        "sentinel",
        "        self._due = now + self._timeout\n",
        "",
        f"{TESTS}::test_a_signal_handler_asks_nothing_meanwhile",
    ),
    sentinel(
        "whoever asks comes to an end",
        "no exception arrives meanwhile",
        "sentinel",
        "        self._due = now + self._timeout\n",
        "        self._due = float('inf')\n",
        f"{TESTS}::test_an_interruption_delays_the_next_question_only",
    ),
    sentinel(
        "a sentinel that does not answer is asked first again",
        "the URL has them in order",
        "sentinel",
        "        if last:\n",
        "        if False:\n",
        f"{TESTS}::test_a_dead_sentinel_is_asked_once",
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
)
