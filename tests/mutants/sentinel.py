"""Wrong ideas about a primary that sentinels replace."""

from __future__ import annotations

from .mutant import Group

TESTS = "tests/stores/test_sentinel.py"

sentinel = Group("sentinel", "celery_semaphore/stores/redis")

MUTANTS = (
    sentinel(
        "an open connection leads to the primary",
        "redis-py asks the sentinels when it connects",
        "connection",
        "        if self._primary and self._primary.moved():",
        "        if False:",
        f"{TESTS}::test_a_former_primary_admits_none",
    ),
    sentinel(
        "the primary has never moved",
        "it would refuse what it may not write",
        "sentinel",
        "        moved = address != self._address",
        "        moved = self._address is None",
        f"{TESTS}::test_a_former_primary_admits_none",
    ),
    sentinel(
        "each call asks the sentinels",
        "it is one more round trip",
        "sentinel",
        "        if time.monotonic() < self._due or",
        "        if",
        f"{TESTS}::test_many_calls_ask_once",
    ),
    sentinel(
        "silent sentinels are asked as often as others",
        "they have a timeout",
        "sentinel",
        "max(INTERVAL_S, TIMES * (now - began))",
        "INTERVAL_S",
        f"{TESTS}::test_silent_sentinels_do_not_hold_up_each_call",
    ),
    sentinel(
        "silence is told again and again",
        "it goes on",
        "sentinel",
        "            if not self._silent:",
        "            if True:",
        f"{TESTS}::test_silence_is_told_once",
    ),
    sentinel(
        "a signal handler asks as well",
        "redis-py's lock is one that a thread may take twice",
        "sentinel",
        " or self._asking == os.getpid():",
        ":",
        f"{TESTS}::test_a_signal_meanwhile_asks_nothing",
    ),
    sentinel(
        "whoever asks is a thread of this process",
        "a fork happens between two calls",
        "sentinel",
        " or self._asking == os.getpid():",
        " or self._asking:",
        f"{TESTS}::test_a_child_asks_though_a_thread_of_its_parent_did",
    ),
    sentinel(
        "a sentinel that does not answer is asked again",
        "redis-py knows best",
        "url",
        '    asked = ours | {"retry": Retry(NoBackoff(), 0)}',
        "    asked = ours",
        f"{TESTS}::test_a_dead_sentinel_is_asked_once",
    ),
    sentinel(
        "the driver's text of a failed search is fit for a log",
        "redis-py hides passwords",
        "connection",
        "    if isinstance(error, MasterNotFoundError):",
        "    if False:",
        f"{TESTS}::test_no_sentinel_answers",
    ),
)
