"""Wrong ideas about what a limited task need not spend."""

from __future__ import annotations

from .mutant import Group

worker = Group("costs", "celery_semaphore", ".py", ("tests/worker/permits",))

CALLS = "tests/task/test_call_options.py"
EARLY = "tests/worker/permits/test_early_acks.py"

MUTANTS = [
    worker(
        "each delivery compares its headers anew",
        "difflib is fast",
        "task/call_options",
        "@lru_cache(maxsize=256)\n",
        "",
        f"{CALLS}::test_a_header_is_compared_once",
    ),
    worker(
        "a name of any length is compared and kept",
        "names of headers are short",
        "task/call_options",
        " or len(name) > LONGEST_MISSPELT:\n",
        ":\n",
        f"{CALLS}::test_a_long_name_is_not_compared_nor_kept",
    ),
    worker(
        "the names of all headers are compared",
        "only ours are like an option",
        "task/call_options",
        "        if not name.startswith(BEGINS) or name in OPTIONS",
        "        if name in OPTIONS",
        f"{CALLS}::test_names_of_others_take_no_place_among_those_that_were_compared",
    ),
    worker(
        "no timer reads for an early ack",
        "the releaser reads the notes twice a second, and that is soon enough",
        "worker/main_process/request",
        "        self._limiter.early_acks.expect(self)\n",
        "",
        f"{EARLY}::test_an_early_ack_leaves_the_loop_by_no_other_event",
    ),
    worker(
        "an early ack waits for another event of the loop",
        "a timer runs in the loop, which need not be woken",
        "worker/limiter",
        "EarlyAcks(self._drain_and_wake)",
        "EarlyAcks(self.drain)",
        f"{EARLY}::test_an_early_ack_leaves_the_loop_by_no_other_event",
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
        " or now < self._fires_at + DROPPED_S:\n",
        " or self._fires_at:\n",
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
        "ledger.has(self.holder) and not ledger.holds(self.holder)",
        "not ledger.holds(self.holder)",
        f"{EARLY}::test_no_ack_is_due_after_an_end",
    ),
    worker(
        "a message with another reply is read for until it is acknowledged",
        "each is, sooner or later",
        "worker/main_process/request",
        "ledger.has(self.holder) and not ledger.holds(self.holder)",
        "ledger.has(self.holder) and not self.acknowledged",
        f"{EARLY}::test_no_ack_is_due_after_the_note_although_another_reply_was_sent",
    ),
    worker(
        "a worker that ends leaves its timers to the next one",
        "it ends with its process",
        "worker/limiter",
        "        self.early_acks.close()\n",
        "",
        f"{EARLY}::test_a_worker_that_ends_closes_them",
    ),
    worker(
        "what was due is read for in the next worker",
        "a timer of it was set",
        "worker/permits/early_acks",
        "        self._hub, self._fires_at = None, 0.0\n",
        "        self._hub = None\n",
        f"{EARLY}::test_the_next_worker_of_a_process_reads_at_once",
    ),
]
