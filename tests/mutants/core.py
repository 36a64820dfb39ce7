"""Wrong ideas about the core that mutmut does not have: another order of two lines, another value."""

from __future__ import annotations

from .mutant import Group

outside = Group("outside", "celery_semaphore/core")
worker = Group("worker", "celery_semaphore/core", ".py", ("tests/core/test_lease.py",))
memory = Group("memory", "celery_semaphore/stores")

MUTANTS = (
    outside(
        "what never reached the store is released",
        "it may have",
        "acquisition",
        "            yield Run(self._ready)\n        asked = self._asked = self._asked or time.monotonic()\n",
        "            self._asked = time.monotonic()\n            yield Run(self._ready)\n"
        "        asked = self._asked = self._asked or time.monotonic()\n",
        "tests/semaphore/test_faults.py::TestFailingStore::test_a_store_that_could_not_be_checked_is_not_released",
    ),
    outside(
        "a lease counts from the question that was answered",
        "the one before it may have been granted",
        "acquisition",
        "asked = self._asked = self._asked or time.monotonic()",
        "asked = self._asked = time.monotonic()",
        "tests/semaphore/test_faults.py::TestFailingStore::test_its_lease_counts_from_the_question_that_was_not_answered",
    ),
    outside(
        "a child renews and releases for its parent",
        "its memory says that it holds the permit",
        "held_permits",
        "os.register_at_fork(after_in_child=by_store.clear)\n",
        "",
        "tests/semaphore/test_permits.py::TestForks",
    ),
    outside(
        "a forked child asks by its parent's session",
        "it has a copy of it",
        "asker",
        "os.register_at_fork(after_in_child=_by_store.clear)\n",
        "",
        "tests/core/test_asker.py::test_a_forked_child_has_a_session_of_its_own",
    ),
    outside(
        "only workers sweep",
        "a grant of a killed process ends by itself; but no call notices",
        "asker",
        "            self._store.reap()\n",
        "            pass\n",
        "tests/core/test_sweep.py::test_the_waits_of_a_killed_process_delay_others_by_one_grant",
    ),
    outside(
        "each question is a sweep, too",
        "the sooner the better",
        "asker",
        "        self._sweeps_at = time.monotonic() + sweep_pause(self._sessions)\n        try:\n",
        "        try:\n",
        "tests/core/test_sweep.py::test_it_sweeps_again_after_the_pause",
    ),
    outside(
        "a wait that begins after a pause sweeps first",
        "the last sweep is long ago",
        "asker",
        "        if not self._waiting:\n            self._sweeps_at",
        "        if False:\n            self._sweeps_at",
        "tests/core/test_sweep.py::test_nor_does_another_one_later",
    ),
    outside(
        "a sweep fails in known ways only",
        "others are defects; but the calls of the process wait for the question after it",
        "asker",
        '        except Exception:\n            logger.exception("the store could not be swept")\n',
        "",
        "tests/core/test_sweep.py::test_a_sweep_that_fails_keeps_no_call_from_its_grant",
    ),
    outside(
        "a sweep is tried while the store is away",
        "it may be back; but each try hangs",
        "asker",
        "if self._missed or time.monotonic() < self._sweeps_at:",
        "if time.monotonic() < self._sweeps_at:",
        "tests/core/test_sweep.py::test_a_store_that_is_away_is_asked_only",
    ),
    outside(
        "a sweep comes after the question",
        "what it granted is in the next answer",
        "asker",
        "        self._sweep()\n        pause, least = self._question()\n",
        "        pause, least = self._question()\n        self._sweep()\n",
        "tests/core/test_sweep.py::test_the_question_after_a_sweep_tells_what_it_granted",
    ),
    worker(
        "a renewal counts from its answer",
        "an answer that took half a lease confirms a permit for a whole one",
        "lease",
        "kept.confirmed, kept.lease, kept.lost = before, lease, False",
        "kept.confirmed, kept.lease, kept.lost = self._clock(), lease, False",
        "tests/core/test_lease.py::test_a_renewal_counts_from_before_it_was_sent",
    ),
    worker(
        "what was not renewed in time is given up",
        "it is lost, so why renew it",
        "lease",
        "                kept.lost = True\n",
        ("                kept.lost = True\n                self.discard(kept.permit.holder)\n"),
    ),
    worker(
        "the store's no is a loss at once",
        "a task that has just released itself is told that it lost its permit",
        "lease",
        "        kept.missed = self._clock()\n",
        "        self._give_up(kept)\n",
    ),
    worker(
        "each of several callers is the one",
        "the first has not done it yet",
        "once",
        "            return self._due.pop()\n",
        "            return self._due[-1]\n",
        "tests/core/test_once.py",
    ),
)
