"""Wrong ideas about a worker's permits: when they are noted, renewed and released, whatever dies between."""

from __future__ import annotations

from .mutant import Group

worker = Group(
    "worker", "celery_semaphore/worker", ".py", ("tests/worker/messages/test_forged_headers.py",)
)

MUTANTS = (
    worker(
        "an unanswered acquire is not released",
        "no answer is a no",
        "main_process/request",
        "        if refused.answer_known:\n",
        "        if True:\n",
        "tests/worker/messages/test_copies.py::test_a_request_whose_acquire_was_not_answered_has_not_ended",
    ),
    worker(
        "the holder is the task's id",
        "one task runs once: a retry or a redelivery is refused as released, or shares a permit",
        "main_process/request",
        '        self.holder = f"{self.id}:{os.urandom(8).hex()}"\n',
        "        self.holder = self.id\n",
        "tests/worker/main_process/test_request.py::test_each_delivery_is_a_holder_of_its_own",
    ),
    worker(
        "asked is noted after the acquire",
        "there is nothing to release before: but a process may die between the two",
        "pool_process/gate",
        (
            "    observer.asked(headers.holder, claims)\n"
            "    since = time.monotonic()\n"
            "    answer = _answered(task, limiter, claims, headers, policy, ends=ends)\n"
        ),
        (
            "    since = time.monotonic()\n"
            "    answer = _answered(task, limiter, claims, headers, policy, ends=ends)\n"
            "    observer.asked(headers.holder, claims)\n"
        ),
        "tests/worker/test_windows.py::test_child_dies_before_its_permit_is_noted[early-SUCCESS-after acquire]",
    ),
    worker(
        "the note of a release before the release",
        "a process that dies between the two leaks its permit",
        "pool_process/postrun",
        "        handed = process.store.release(holder, claims, message_id)\n",
        (
            "        notes.released(holder, type('Nothing', (), {'outgoing': (), 'granted': ()}))\n"
            "        handed = process.store.release(holder, claims, message_id)\n"
        ),
        "tests/worker/test_windows.py::test_child_dies_while_it_gives_its_permit_back[before release-early]",
    ),
    worker(
        "the main process never releases",
        "the task's own process does",
        "permits/ledger",
        "        if delivery is not None and not delivery.released:\n",
        "        if False:\n",
        "tests/worker/test_windows.py::test_child_dies_while_it_gives_its_permit_back[after release-late]",
        "tests/worker/test_windows.py::test_child_dies_before_its_permit_is_noted[early-SUCCESS-after acquire]",
    ),
    worker(
        "a note is taken before it is entered",
        "a handler that interrupts it enters the later ones first",
        "permits/note",
        "            note = self._unread[0]\n",
        "            note = self._unread.popleft()\n",
        "tests/worker/permits/test_interrupted.py::test_notes_are_entered_while_another_thread_sleeps_there",
    ),
    worker(
        "notes are read by one at a time",
        "a lock is a lock; a handler that sleeps keeps it",
        "permits/note",
        "self._lock.acquire(timeout=STUCK)",
        "self._lock.acquire()",
        "tests/worker/permits/test_interrupted.py::test_a_soft_shutdown_while_notes_are_entered",
        "tests/worker/permits/test_interrupted.py::test_notes_are_entered_while_another_thread_sleeps_there",
    ),
    worker(
        "a permit is kept that ended while it was entered",
        "who looked it up is sure that it is there",
        "permits/ledger",
        (
            "        if permit.holder not in self._deliveries:\n"
            "            self._keeper.discard(permit.holder)\n"
        ),
        "",
        "tests/worker/permits/test_interrupted.py::test_an_end_while_the_permit_is_entered",
    ),
    worker(
        "renewals stop when a shutdown begins",
        "a worker that finishes its tasks needs no more leases",
        "main_process/bootstep",
        "    def stop(self, parent: WorkController) -> None:\n",
        (
            "    def stop(self, parent: WorkController) -> None:\n"
            "        self.limiter.process.keeper.stop()\n"
        ),
        "tests/worker/main_process/test_bootstep.py::test_renews_during_a_warm_shutdown",
    ),
    worker(
        "the dead are renewed",
        "the main process hears of the end of each, sooner or later",
        "permits/ledger",
        "gone = None if pid is None else partial(is_gone, pid)",
        "gone = None",
        "tests/worker/main_process/test_forgotten.py::test_its_process_dies",
    ),
    worker(
        "a failure keeps its permit",
        "its process gave it back; but it may have died",
        "main_process/request",
        "            self._ended(reported=return_ok or not isinstance(exc, MAY_RUN))\n",
        "            pass\n",
        "tests/worker/test_ends.py::test_gives_the_permit_back[early-kill-FAILURE]",
    ),
    worker(
        "a new process knows no epoch",
        "after a loss it admits itself at once, before the living put their permits back",
        "pool_process/gate",
        "        process.store.epoch = headers.epoch\n",
        "        pass\n",
        "tests/worker/pool_process/test_gate.py::test_a_process_learns_the_epoch_from_its_delivery",
    ),
    worker(
        "a store that fails is a permit",
        "better too many than none",
        "pool_process/gate",
        "        raise unanswered(task, headers, policy, error, answer_known=False) from None\n",
        "        return Permit(headers.holder, 1, tuple(claims), 0.0, 0.0, 0)\n",
        "tests/worker/test_faults.py::test_the_store_cannot_be_reached[cut]",
    ),
    worker(
        "a lease begins when the store has answered",
        "the server counted from before",
        "pool_process/gate",
        "took), since)",
        "took), time.monotonic())",
        "tests/worker/pool_process/test_gate.py::test_a_lease_counts_from_before_the_store_was_asked",
    ),
    worker(
        "headers are the sender's business",
        "they become attributes of the request, and one of them says that it has a permit",
        "main_process/request",
        "        remove_internal(sent)",
        "        pass",
    ),
    worker(
        "a permit is whatever has its name",
        "the main process has dropped what a message brought; but not with a Request class of another",
        "pool_process/permit",
        "    return permit if isinstance(permit, TaskPermit) else None\n",
        "    return permit\n",
    ),
)
