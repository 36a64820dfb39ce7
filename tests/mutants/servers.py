"""Wrong ideas about servers: Redis Cluster, Sentinel, errors that pass or do not, and what a server keeps."""

from __future__ import annotations

from .mutant import Group

cluster = Group("cluster", "celery_semaphore/stores")
sentinel = Group("sentinel", "celery_semaphore/stores")
upkeep = Group(
    "upkeep",
    "celery_semaphore/stores",
    ".py",
    (
        "tests/stores/test_faults.py::TestRefusals",
        "-k",
        "test_final or test_passing",
    ),
)
keeping = Group("keeping", "celery_semaphore/stores")

MUTANTS = (
    cluster(
        "MOVED is an outage",
        "the URL names the server, as with any other",
        "redis/errors",
        '"MASTERDOWN", "MOVED", "ASK"',
        '"MASTERDOWN", "ASK"',
        "tests/stores/cluster/test_entrance.py",
    ),
    cluster(
        "what was answered of a batch stands",
        "only the rest was refused, and each call may be missing",
        "redis/runner",
        "    if not lenient or not is_final(said(answer)):\n",
        "    if not said(answer).startswith('MOVED'):\n",
        "tests/stores/cluster/test_moves.py::TestMoves::test_a_batch_that_is_cut_in_half_is_repeated_as_a_whole",
    ),
    sentinel(
        "an open connection leads to the primary",
        "new ones do",
        "redis/primary",
        "        return (connection.host, connection.port) == self.place",
        "        return True",
        "tests/stores/test_sentinel.py::test_a_former_primary_admits_none",
    ),
    sentinel(
        "whoever asks comes to an end",
        "no exception arrives meanwhile",
        "redis/primary",
        "        self._due = now + self._timeout\n",
        "        self._due = float('inf')\n",
        "tests/stores/test_sentinel.py::test_an_interruption_delays_the_next_question_only",
    ),
    upkeep(
        "every error of Redis passes",
        "whatever it is, asking again may help",
        "redis/errors",
        "    return bool(_OF_A_SCRIPT.search(reason)) and not passes(reason)\n",
        "    return False\n",
    ),
    upkeep(
        "every error of a script is final",
        "it would run into it again",
        "redis/errors",
        "    return bool(_OF_A_SCRIPT.search(reason)) and not passes(reason)\n",
        "    return bool(_OF_A_SCRIPT.search(reason))\n",
    ),
    keeping(
        "an AOF that is switched on is written",
        "Redis would stop otherwise; but with appendfsync everysec it goes on",
        "redis/durability",
        '    if info.get("aof_last_write_status") != "ok":\n',
        "    if False:\n",
        "tests/stores/test_durability.py::test_an_aof_that_cannot_be_written",
    ),
)
