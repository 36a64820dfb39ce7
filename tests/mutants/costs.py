"""Wrong ideas about what a limited task need not spend."""

from __future__ import annotations

from .mutant import Group

worker = Group("costs", "celery_semaphore", ".py", ("tests/worker/permits",))

EARLY = "tests/worker/permits/test_early_acks.py"
LEDGER = "tests/worker/permits/test_ledger.py"
TRACER = "tests/worker/pool_process/test_tracer.py"

MUTANTS = [
    worker(
        "each delivery compares its headers anew",
        "difflib is fast",
        "task/call_options",
        "@lru_cache(maxsize=256)\n",
        "",
        "tests/task/test_call_options.py::test_a_header_is_compared_once",
    ),
    worker(
        "no timer reads for an early ack",
        "the releaser reads the notes twice a second, and that is soon enough",
        "worker/main_process/request",
        "        self._limiter.early_acks.expect(self)\n",
        "",
        f"{EARLY}::test_an_early_ack_is_sent_while_the_task_runs",
    ),
    worker(
        "the loop has no timer of early acks",
        "they are made in the loop, which knows when it turns",
        "worker/main_process/bootstep",
        "            self.limiter.early_acks.serve(hub)\n",
        "            pass\n",
        f"{EARLY}::test_an_early_ack_is_sent_while_the_task_runs",
    ),
    worker(
        "notes are read once for an early ack",
        "ten milliseconds are enough for an acquire",
        "worker/permits/early_acks",
        "        if self._due:\n            self._set_timer()\n",
        "",
        f"{EARLY}::test_it_reads_on_while_one_is_due",
    ),
    worker(
        "notes are read every 10 ms while a store hangs",
        "its task may get a permit at any moment",
        "worker/permits/early_acks",
        "            if request.ack_is_due and self._clock() < until:\n",
        "            if request.ack_is_due:\n",
        f"{EARLY}::test_it_does_not_read_for_ever",
    ),
    worker(
        "a dropped timer is waited for",
        "a timer that was set fires",
        "worker/permits/early_acks",
        "        if now < self._fires_at + DROPPED_S:\n",
        "        if self._fires_at:\n",
        f"{EARLY}::test_a_timer_that_was_dropped_is_set_again",
    ),
    worker(
        "each timer reads",
        "one that comes late after all does no harm",
        "worker/permits/early_acks",
        "        if self._clock() < self._fires_at:\n            return  # this",
        "        # This",
        f"{EARLY}::test_a_timer_that_comes_late_after_all_adds_none",
    ),
    worker(
        "a task that ended is read for",
        "nobody has acknowledged it",
        "worker/main_process/request",
        "        return self._limiter.process.ledger.has(self.holder)  # its end acknowledges by itself\n",
        "        return True\n",
        f"{EARLY}::test_no_ack_is_due_after_an_end",
    ),
    worker(
        "a process that noted nothing has acquired nothing",
        "it notes its permit",
        "worker/permits/ledger",
        "        if delivery is None and may_have_acquired and watcher is not None and watcher.claims:\n",
        "        if False:\n",
        f"{LEDGER}::test_a_process_that_noted_nothing_may_have_acquired",
    ),
    worker(
        "what was released without the note of a permit is released again",
        "it is not known here",
        "worker/permits/ledger",
        "        may_have_acquired = holder not in self._ended\n",
        "        may_have_acquired = True\n",
        f"{LEDGER}::test_what_its_process_released_is_not_released_again",
    ),
    worker(
        "each end of a task without notes releases",
        "a release too many changes nothing: but it says that the task has run",
        "worker/permits/ledger",
        "        watcher = self._watchers.pop(holder, None)\n",
        "        watcher = self._watchers.get(holder)\n",
        f"{LEDGER}::test_an_end_that_comes_twice_releases_once",
    ),
    worker(
        "a note after the end is of a permit",
        "a task notes its permit before its end",
        "worker/permits/ledger",
        "        if holder not in self._ended:\n",
        "        if True:\n",
        f"{LEDGER}::test_a_note_that_is_entered_after_the_end_is_of_no_permit",
    ),
    worker(
        "what reached no process has ended for good",
        "its end was reported",
        "worker/permits/ledger",
        "        if self.has(holder):\n            self._ended.add(holder)\n",
        "        self._ended.add(holder)\n",
        f"{LEDGER}::test_a_task_that_reached_no_process_has_acquired_nothing",
    ),
    worker(
        "all that ended are remembered",
        "they are few",
        "worker/permits/lately",
        "            self._older, self._newer = self._newer, set()\n",
        "            pass\n",
        "tests/worker/permits/test_lately.py",
    ),
    worker(
        "the last half of those that ended is forgotten at once",
        "one set is simpler",
        "worker/permits/lately",
        "            self._older, self._newer = self._newer, set()\n",
        "            self._newer = set()\n",
        "tests/worker/permits/test_lately.py",
    ),
    worker(
        "no claims are noted before the acquire",
        "the main process has the task's options",
        "worker/pool_process/gate",
        "    if limiter.notes is None or claims is not task.semaphore_options.constant or ends is not None:\n",
        "    if limiter.notes is None:\n",
        f"{TRACER}::test_claims_are_noted_before_the_acquire_unless_all_calls_have_them",
    ),
    worker(
        "constant claims are never noted",
        "but those of a wait were noted in their place",
        "worker/pool_process/gate",
        " is not task.semaphore_options.constant or ends is not None:\n",
        " is not task.semaphore_options.constant:\n",
        f"{TRACER}::test_claims_that_replace_noted_ones_are_noted",
    ),
    worker(
        "a permit is noted without the name of its task, and without claims",
        "its claims were noted before",
        "worker/permits/note",
        "            self.asked(permit.holder, permit.claims)  # else they are",
        "            # They are",
        "tests/worker/permits/test_note.py::test_a_permit_whose_task_has_a_long_name_brings_its_claims",
    ),
]
