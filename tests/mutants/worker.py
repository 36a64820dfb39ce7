"""Wrong ideas about what runs in a worker."""

from __future__ import annotations

from .mutant import Group

HERE = "tests/worker"
LEASES = ("tests/core/test_lease.py",)
INTERRUPTED = f"{HERE}/permits/test_interrupted.py"
COPIES = f"{HERE}/messages/test_copies.py"
ENDS = f"{HERE}/test_ends.py"
FAULTS = f"{HERE}/test_faults.py"
FORGOTTEN = f"{HERE}/main_process/test_forgotten.py"
POOLS = f"{HERE}/test_pools.py"
WAITING = f"{HERE}/test_waiting.py"
TRACER = (f"{HERE}/pool_process/test_tracer.py",)
TRACKING = "tests/worker/pool_process/test_result.py"
WINDOWS = f"{HERE}/test_windows.py"
UNCHANGED = (f"{WAITING}::test_the_message_is_unchanged[published-redis]",)
PUT_BACK = f"{WINDOWS}::test_main_process_dies_while_it_puts_a_message_back"
BEFORE = f"{WINDOWS}::test_child_dies_before_its_permit_is_noted"
GIVES_BACK = f"{WINDOWS}::test_child_dies_while_it_gives_its_permit_back"
NOTED = f"{WINDOWS}::test_child_dies_after_its_permit_was_noted"

worker = Group("worker", "celery_semaphore")

ACKNOWLEDGING = [
    worker(
        "acknowledged when accepted",
        "as Celery does: a process that dies before its permit takes the waiting task along",
        "worker/main_process/request",
        "        if self._accepting and not self.task.acks_late:\n            return\n",
        "",
        f"{BEFORE}[early-SUCCESS-after asked]",
    ),
    worker(
        "acknowledged before the new message is published",
        "a refusal travels through on_success, where every early ack seemed to be due",
        "worker/main_process/request",
        "                    if not failed:  # else",
        "                    if True:  # else",
        f"{PUT_BACK}[early-before publish]",
    ),
    worker(
        "went back before the broker said so",
        "the message is acknowledged when its successor is about to be sent",
        "worker/messages/waiting",
        "        self._publisher.publish(request.message, request.came_from(), header=header, delay=delay)\n"
        "        request.went_back()\n",
        "        request.went_back()\n"
        "        self._publisher.publish(request.message, request.came_from(), header=header, delay=delay)\n",
        "tests/worker/messages/test_publisher.py::test_not_acknowledged_before_its_successor_is_published",
    ),
    worker(
        "a message that went back stays unacknowledged",
        "the successor runs, and the old one comes again when the worker ends",
        "worker/main_process/refused_request",
        '        """Acknowledge the message: the broker has the one that replaces it."""\n'
        "        self.acknowledge()\n",
        '        """Acknowledge the message: the broker has the one that replaces it."""\n',
        f"{POOLS}::test_warm_shutdown_keeps_who_waits[published-hold]",
    ),
    worker(
        "late acks are early when the permit is noted",
        "the permit is the moment of the ack, whichever it is",
        "worker/main_process/request",
        "            self._request_dict.pop(name, None)\n        if not self.task.acks_late:\n",
        "            self._request_dict.pop(name, None)\n        if True:\n",
        f"{NOTED}[late_lost-SUCCESS]",
    ),
    worker(
        "a task whose process died early has failed",
        "WorkerLostError, although its body never began",
        "worker/main_process/request",
        "            isinstance(exc, DIED)\n            and not self.task.acks_late\n",
        "            False\n            and not self.task.acks_late\n",
        f"{BEFORE}[early-SUCCESS-before acquire]",
    ),
    worker(
        "a task whose process died with its permit is delivered again",
        "it may have begun, and early acks promise that it runs once at most",
        "worker/main_process/request",
        "            and not self.acknowledged\n"
        "            and not self._already_revoked\n"
        "            and not self._already_cancelled\n"
        "            and not self._limiter.process.ledger.holds(self.holder)\n",
        "            and not self._already_revoked\n            and not self._already_cancelled\n",
        f"{NOTED}[early-FAILURE]",
    ),
    worker(
        "a key function that kills its process does so for ever",
        "who died before its permit is always delivered again",
        "worker/main_process/request",
        '            and not self.message.delivery_info.get("redelivered")\n',
        "",
        "tests/worker/test_windows.py::test_what_always_dies_before_its_permit_fails",
    ),
    worker(
        "nothing is flushed at a shutdown",
        "what is being published is acknowledged later, on a connection that is closed",
        "worker/main_process/bootstep",
        "                limiter.mover.flush(_longest_flush(limiter.settings.publish_timeout))\n",
        "                pass\n",
        "tests/worker/messages/test_publisher.py::test_a_shutdown_waits_for_what_is_being_published",
    ),
    worker(
        "an ack from another thread wakes nobody",
        "the event loop will run soon anyway",
        "worker/permits/loop_waker",
        '            os.write(self._write, b"!")\n',
        "            pass\n",
        "tests/worker/permits/test_loop_waker.py::test_the_alarm_is_heard",
    ),
    worker(
        "nobody is told that a permit was noted",
        "the releaser reads the notes twice a second, and that is soon enough for an early ack",
        "worker/pool_process/gate",
        "        limiter.waker.wake()  # its message is to be acknowledged now\n",
        "        pass\n",
        "tests/worker/permits/test_loop_waker.py::test_an_early_ack_is_sent_while_the_task_runs",
    ),
    worker(
        "a lost connection changes nothing",
        "what it delivered is put back, and the broker delivers it again as well",
        "worker/main_process/refused_request",
        "        return self._connection == self._limiter.worker.connections\n",
        "        return True\n",
        "tests/worker/main_process/test_request.py::test_what_a_lost_connection_delivered_is_not_put_back",
    ),
]

RELEASING = [
    worker(
        "released when revoked",
        "the signal was sent, so the task is over; but it cleans up, or does not listen",
        "worker/main_process/request",
        "            ledger.ended(self.holder, partial(is_gone, self.worker_pid), message_id)\n",
        "            ledger.ended(self.holder, message_id=message_id)\n",
        "tests/worker/test_ends.py::test_a_permit_is_kept_while_its_process_runs",
    ),
    worker(
        "a dying process is gone",
        "one look is enough",
        "worker/permits/releaser",
        "            elif each.gone():\n",
        "            elif each.gone() or True:\n",
        "tests/worker/test_ends.py::test_a_permit_is_kept_while_its_process_runs",
    ),
    worker(
        "a process that is waited for is never gone",
        "the release after a kill is left to the lease",
        "worker/permits/process",
        "        return True  # reaped already\n",
        "        return False\n",
        "tests/worker/permits/test_process.py::test_a_process_is_gone_once_it_ended",
    ),
    worker(
        "a failure keeps its permit",
        "its process gave it back; but it may have died",
        "worker/main_process/request",
        "        finally:\n            self._ended(reported=return_ok)\n",
        "        finally:\n            pass\n",
        f"{ENDS}::test_gives_the_permit_back[early-kill-FAILURE]",
    ),
    worker(
        "a success keeps its permit",
        "Celery's generated on_success is trusted to call ours",
        "worker/main_process/request",
        "            cls.on_success = on_success\n",
        "            cls.on_success = generated\n",
        f"{COPIES}::test_a_success_is_an_end",
    ),
    worker(
        "a shutdown does not wait for its releases",
        "daemon threads end with the process",
        "worker/main_process/bootstep",
        "        limiter_of(c.app).close(SHUTDOWN_TIMEOUT_S, flush=_longest_flush(SHUTDOWN_TIMEOUT_S))\n",
        "        pass\n",
        "tests/worker/main_process/test_bootstep.py::test_the_last_step_waits_for_releases",
    ),
    worker(
        "the last step waits for the broker as for the store",
        "both are needed to give back what it holds",
        "worker/limiter",
        "        mover.flush(flush)\n        mover.close(flush)\n",
        "        mover.flush(timeout)\n        mover.close(timeout)\n",
        "tests/worker/test_limiter.py::test_the_last_step_waits_for_the_broker_in_bounds",
    ),
    worker(
        "a worker reaps twice",
        "a renewal is as good a moment as a sweep; but each costs the store a call",
        "worker/limiter",
        "LeaseKeeper(own, announce)  # the sweeper reaps",
        "LeaseKeeper(own, announce, own.reap)",
        f"{HERE}/test_limiter.py::test_the_keeper_of_a_worker_leaves_reaping_to_the_sweeper",
    ),
    worker(
        "the end waits for an errand as long as it takes",
        "it is nearly done",
        "core/background_thread",
        "        thread.join(timeout)\n",
        "        thread.join()\n",
        f"{HERE}/messages/test_scheduler.py::test_the_end_waits_in_bounds",
    ),
    worker(
        "a note is taken before it is entered",
        "a handler that interrupts it enters the later ones first",
        "worker/permits/note",
        "            note = self._unread[0]\n",
        "            note = self._unread.popleft()\n",
        f"{INTERRUPTED}::test_notes_are_entered_while_another_thread_sleeps_there",
    ),
    worker(
        "notes are read by one at a time",
        "a lock is a lock; a handler that sleeps keeps it",
        "worker/permits/note",
        "self._lock.acquire(timeout=STUCK)",
        "self._lock.acquire()",
        f"{INTERRUPTED}::test_a_soft_shutdown_while_notes_are_entered",
        f"{INTERRUPTED}::test_notes_are_entered_while_another_thread_sleeps_there",
    ),
    worker(
        "a note that is read twice is asked twice",
        "the delivery forgets that it holds a permit",
        "worker/permits/ledger",
        "self._deliveries.setdefault(holder, Delivery(holder, tuple(claims)))",
        "self._deliveries[holder] = Delivery(holder, tuple(claims))",
        f"{INTERRUPTED}::test_entered_twice_changes_nothing",
    ),
    worker(
        "a permit is kept that ended while it was entered",
        "who looked it up is sure that it is there",
        "worker/permits/ledger",
        "        if permit.holder not in self._deliveries:  # it ended meanwhile: do not renew it for ever\n"
        "            self._keeper.discard(permit.holder)\n",
        "",
        f"{INTERRUPTED}::test_an_end_while_the_permit_is_entered",
    ),
    worker(
        "an unanswered release is given up",
        "the lease will do",
        "worker/permits/releaser",
        "            self._releases.append(release)\n",
        "",
        "tests/worker/permits/test_releaser.py::test_an_unanswered_release_is_repeated",
    ),
    worker(
        "an unanswered acquire is not released",
        "no answer is a no",
        "worker/main_process/refused_request",
        "        if refused.answer_known:\n",
        "        if True:\n",
        f"{COPIES}::test_a_request_whose_acquire_was_not_answered_has_not_ended",
    ),
    worker(
        "the holder is the task's id",
        "one task runs once: a retry or a redelivery is refused as released, or shares a permit",
        "worker/main_process/request",
        '        self.holder = f"{self.id}:{os.urandom(8).hex()}"\n',
        "        self.holder = self.id\n",
        "tests/worker/main_process/test_request.py::test_each_delivery_is_a_holder_of_its_own",
    ),
    worker(
        "asked is noted after the acquire",
        "there is nothing to release before: but a process may die between the two",
        "worker/pool_process/gate",
        "    observer.asked(headers.holder, claims)\n"
        "    since = time.monotonic()\n"
        "    answer = _answered(task, limiter, claims, headers, policy)\n",
        "    since = time.monotonic()\n"
        "    answer = _answered(task, limiter, claims, headers, policy)\n"
        "    observer.asked(headers.holder, claims)\n",
        f"{BEFORE}[early-SUCCESS-after acquire]",
    ),
    worker(
        "a note names a claim by its key's beginning",
        "the name in the store is made anew, of what is left of a long key",
        "worker/permits/note",
        "    return [claim.semaphore, key, claim.limit, claim.weight, claim.resource]\n",
        "    return [claim.semaphore, key, claim.limit, claim.weight]\n",
        "tests/worker/permits/test_note.py::test_a_note_of_a_long_key",
    ),
    worker(
        "a note holds the whole key",
        "it is short enough as the store keeps it; but what does not fit into one write is refused",
        "worker/permits/note",
        "claim.key[:64]",
        "claim.key[:]",
        "tests/worker/permits/test_note.py::test_a_note_of_many_limits_with_long_keys",
    ),
]

RENEWING = [
    worker(
        "renewals stop when a shutdown begins",
        "a worker that finishes its tasks needs no more leases",
        "worker/main_process/bootstep",
        "    def stop(self, parent: WorkController) -> None:\n",
        "    def stop(self, parent: WorkController) -> None:\n        self.limiter.process.keeper.stop()\n",
        "tests/worker/main_process/test_bootstep.py::test_renews_during_a_warm_shutdown",
    ),
    worker(
        "the released are renewed on",
        "a permit that was given back is announced as lost at the next renewal",
        "worker/permits/ledger",
        "        delivery = self._deliveries.pop(holder, None)\n        self._keeper.discard(holder)\n",
        "        delivery = self._deliveries.pop(holder, None)\n",
        "tests/worker/permits/test_ledger.py::test_what_ended_is_not_announced_as_lost",
    ),
    worker(
        "the store's no is a loss at once",
        "a task that has just released itself is told that it lost its permit",
        "core/lease",
        "        kept.missed = self._clock()\n",
        "        self._give_up(kept)\n",
        *LEASES,
    ),
    worker(
        "the note of a release before the release",
        "a process that dies between the two leaks its permit",
        "worker/pool_process/postrun",
        "        outgoing = process.store.release(holder, claims, message_id)\n",
        "        notes.released(holder, frozenset())\n"
        "        outgoing = process.store.release(holder, claims, message_id)\n",
        f"{GIVES_BACK}[before release-early]",
    ),
    worker(
        "the main process never releases",
        "the task's own process does",
        "worker/permits/ledger",
        "            if not delivery.released:\n",
        "            if False:\n",
        f"{GIVES_BACK}[after release-late]",
        f"{BEFORE}[early-SUCCESS-after acquire]",
    ),
    worker(
        "a held permit is not renewed",
        "a lease is long enough",
        "worker/permits/ledger",
        "        self._keeper.add(permit, since, gone)\n",
        "",
        "tests/worker/main_process/test_bootstep.py::test_renews_during_a_warm_shutdown",
    ),
    worker(
        "the dead are renewed",
        "the main process hears of the end of each, sooner or later",
        "worker/permits/ledger",
        "gone = None if pid is None else partial(is_gone, pid)",
        "gone = None",
        f"{FORGOTTEN}::test_its_process_dies",
    ),
    worker(
        "what could not be given back is renewed",
        "the main process hears of the end of each, sooner or later",
        "worker/pool_process/postrun",
        "        process.breaker.failed(error)\n        notes.unreleased(holder)\n",
        "        process.breaker.failed(error)\n",
        f"{FORGOTTEN}::test_its_process_cannot_give_the_permit_back",
    ),
    worker(
        "what cannot be given back while the breaker is open is renewed",
        "the main process hears of the outage, too",
        "worker/pool_process/postrun",
        "        notes.unreleased(holder)  # the main process retries\n",
        "",
        f"{HERE}/pool_process/test_postrun.py",
    ),
    worker(
        "a loss is told of what was discarded",
        "the store said lost",
        "core/lease",
        "        if current is not None and not current.lost:\n",
        "        if not kept.lost:\n",
        *LEASES,
    ),
    worker(
        "a lease begins when it is noted",
        "the time of the acquire and of the note come for free",
        "core/lease",
        "confirmed = self._clock() if since is None else since",
        "confirmed = self._clock()",
        *LEASES,
    ),
    worker(
        "a lease begins when the store has answered",
        "the server counted from before",
        "worker/pool_process/gate",
        "observer.held(answer, since,",
        "observer.held(answer, time.monotonic(),",
        "tests/worker/pool_process/test_gate.py::test_a_lease_counts_from_before_the_store_was_asked",
    ),
    worker(
        "a renewal counts from its answer",
        "an answer that took half a lease confirms a permit for a whole one",
        "core/lease",
        "kept.confirmed, kept.lost = before, False",
        "kept.confirmed, kept.lost = self._clock(), False",
        "tests/core/test_lease.py::test_a_renewal_counts_from_before_it_was_sent",
    ),
    worker(
        "nobody is told of a silent store",
        "as long as it does not say lost, a permit is held",
        "core/lease",
        "return not kept.lost and self._clock() - kept.confirmed > LOST_AFTER * self._store.lease",
        "return False",
        *LEASES,
    ),
    worker(
        "what was not renewed in time is given up",
        "it is lost, so why renew it",
        "core/lease",
        "                kept.lost = True\n",
        "                kept.lost = True\n                self.discard(kept.permit.holder)\n",
        *LEASES,
    ),
    worker(
        "a failing store is asked at each tick",
        "the sooner the better",
        "core/lease",
        "        return min(RETRY_DELAY_S, self._store.lease / 10)\n",
        "        return 0.0\n",
        *LEASES,
    ),
    worker(
        "a task that is ended for its loss lost its process",
        "the state says WorkerLostError or Terminated, and not why",
        "worker/main_process/request",
        "        if self._loss is not None and isinstance(exc, DIED):\n",
        "        if False:\n",
        f"{FAULTS}::test_on_lost_terminate",
    ),
]

PUTTING_BACK = [
    worker(
        "a wait is a retry",
        "retries + 1, as by self.retry: waiting spends them",
        "worker/messages/message",
        "    headers[TICKET] = header\n",
        '    headers["retries"] = headers.get("retries", 0) + 1\n    headers[TICKET] = header\n',
        *UNCHANGED,
    ),
    worker(
        "compression is lost",
        "the body is what kombu handed out, and stays so",
        "worker/messages/message",
        'compression = headers.pop("compression", None)',
        'compression = headers.pop("compression", None) and None',
        "tests/worker/messages/test_message.py::test_a_message_stays_compressed_and_expires_as_before",
    ),
    worker(
        "the compression header stays",
        "all headers are passed on as they are, over a body that is not compressed any more",
        "worker/messages/message",
        '    compression = headers.pop("compression", None)\n',
        "    compression = None\n",
        *UNCHANGED,
    ),
    worker(
        "expires is dropped",
        "eta is enough",
        "worker/messages/message",
        "    headers[TICKET] = header\n",
        '    headers.pop("expires", None)\n    headers[TICKET] = header\n',
        f"{WAITING}::test_expires_while_it_waits",
    ),
    worker(
        "expiration is passed on in milliseconds",
        "as it stands in the message; publish takes seconds",
        "worker/messages/message",
        "float(expiration) / 1000",
        "float(expiration)",
        "tests/worker/messages/test_message.py::test_a_message_stays_compressed_and_expires_as_before",
    ),
    worker(
        "priority is dropped",
        "a property of the transport's",
        "worker/messages/message",
        '    "expiration",  # given in another unit\n',
        '    "expiration",\n    "priority",\n',
        *UNCHANGED,
    ),
    worker(
        "properties are dropped",
        "headers are what a task is made of",
        "worker/messages/message",
        "        if value is not None and name not in OF_THE_TRANSPORT\n",
        '        if value is not None and name == "priority"\n',
        *UNCHANGED,
    ),
    worker(
        "the ticket is not sent along",
        "each delivery is a wait of its own: no time-out ever ends it",
        "worker/messages/message",
        "    headers[TICKET] = header\n",
        "",
        f"{WAITING}::test_wait_timeout",
    ),
    worker(
        "the body sees our headers",
        "and self.retry sends them along to another wait",
        "worker/messages/headers",
        "        for name in OF_ONE_WAIT:\n",
        "        for name in ():\n",
        *UNCHANGED,
    ),
    worker(
        "a retry sends our way out along",
        "it is on the request for the tracer, which alone looks for it",
        "worker/messages/headers",
        "dropped = {*OF_ONE_WAIT, EXITS_EARLY}",
        "dropped = {*OF_ONE_WAIT}",
        *TRACER,
    ),
    worker(
        "a wait without end",
        "a store that says timed out is asked again",
        "worker/pool_process/refusal",
        "    if refusal.reason is Reason.TIMED_OUT:\n",
        "    if False:\n",
        f"{WAITING}::test_wait_timeout",
    ),
    worker(
        "the dropped have no state",
        "whoever waits for the result waits for ever",
        "worker/pool_process/refusal",
        "        tell_dropped(task, text)\n",
        "        pass\n",
        f"{WAITING}::test_drop_and_fail",
    ),
    worker(
        "what is ready waits again",
        "who waits has no result yet",
        "worker/pool_process/result",
        "        if known not in states.READY_STATES:\n",
        "        if known != states.SUCCESS:\n",
        f"{TRACKING}::test_what_is_ready_stays",
    ),
    worker(
        "who runs waits",
        "each message that is refused says that its task waits",
        "worker/pool_process/result",
        "ticket is None or refusal.reason in NOT_ITS_TURN",
        "ticket is None",
        f"{TRACKING}::test_another_message_of_the_task_tells",
    ),
    worker(
        "a wait that is over still waits",
        "the result says the rest",
        "worker/pool_process/gate",
        "        if headers.ticket and limiter.settings.track_waiting:\n",
        "        if False:\n",
        f"{TRACKING}::test_a_wait_that_is_over_says_so",
    ),
]

PENDING_RELEASE = [
    worker(
        "a store that fails fails the task",
        "an exception is an exception",
        "worker/pool_process/gate",
        "        raise _unanswered(task, headers, policy, error, answer_known=False) from None\n",
        "        raise\n",
        f"{FAULTS}::test_the_store_cannot_be_reached[cut]",
    ),
    worker(
        "a store that fails is a permit",
        "better too many than none",
        "worker/pool_process/gate",
        "        raise _unanswered(task, headers, policy, error, answer_known=False) from None\n",
        "        return Permit(headers.holder, 1, tuple(claims), 0.0, 0.0, 0)\n",
        f"{FAULTS}::test_the_store_cannot_be_reached[cut]",
    ),
    worker(
        "the breaker never opens",
        "each task waits for the whole time-out of a store that hangs",
        "core/breaker",
        "        self._until = self._clock() + self._pause\n",
        "        self._until = 0.0\n",
        "tests/core/test_breaker.py::test_the_breaker",
    ),
    worker(
        "the breaker never forgets",
        "a store that failed yesterday is left alone as long as one that fails all day",
        "core/breaker",
        '        """Record an answer of the server."""\n        self._pause = 0.0\n',
        '        """Record an answer of the server."""\n',
        "tests/core/test_breaker.py::test_the_breaker",
    ),
    worker(
        "a new process knows no epoch",
        "after a loss it admits itself at once, before the living put their permits back",
        "worker/pool_process/gate",
        "        process.store.epoch = headers.epoch\n",
        "        pass\n",
        "tests/worker/pool_process/test_gate.py::test_a_process_learns_the_epoch_from_its_delivery",
    ),
    worker(
        "a delivery brings no epoch",
        "the same, on the other side",
        "worker/main_process/request",
        "        sent[EPOCH] = self._limiter.process.store.epoch\n",
        "",
        "tests/worker/pool_process/test_gate.py::test_a_process_learns_the_epoch_from_its_delivery",
    ),
    worker(
        "a fork keeps its parent's store",
        "and its locks, which another thread may hold for ever",
        "worker/limiter",
        "        self._process = None\n        if epoch is not None:\n",
        "        if epoch is not None and self._process is None:\n",
        "tests/worker/test_limiter.py::test_a_fork_has_a_side_of_its_own",
    ),
    worker(
        "a subclass without super() is not limited",
        "the gate stands in LimitedTask.before_start, and is overridden",
        "worker/task",
        "            cls.before_start = with_permit(cls.before_start)\n",
        "            if cls.before_start.__module__.startswith('celery'):\n"
        "                cls.before_start = with_permit(cls.before_start)\n",
        f"{WAITING}::test_a_subclass_that_forgets_super_is_limited",
    ),
    worker(
        "eager tasks are not limited",
        "they are only for tests",
        "worker/pool_process/gate",
        "    if request.called_directly or permit_of(request) is not None:\n",
        "    if request.called_directly or request.is_eager or permit_of(request) is not None:\n",
        f"{POOLS}::test_eager",
    ),
]

LEAVING = [
    worker(
        "a refusal keeps the frames that it came through",
        "it is pickled without them",
        "worker/pool_process/tracer",
        "            refused.with_traceback(None)  # the frames would keep the task's arguments alive\n",
        "",
        *TRACER,
    ),
    worker(
        "a refusal keeps the error that it came from",
        "from None has hidden it",
        "worker/pool_process/tracer",
        "            refused.__context__ = None\n",
        "",
        *TRACER,
    ),
    worker(
        "a refusal travels with the whole key",
        "it is what the call said; the store has its name",
        "worker/pool_process/refusal",
        "        claims=brief(claims) if in_line else (),\n",
        "        claims=tuple(claims) if in_line else (),\n",
        *TRACER,
    ),
    worker(
        "a refusal is reported as Celery would",
        "all that a task raises is taken apart and sent",
        "worker/pool_process/gate",
        "            exit_early(task, refused)\n",
        "            pass\n",
        *TRACER,
    ),
]

UNREAD = f"{HERE}/holding/test_unread.py"
STOPPING = [
    worker(
        "Celery closes what it has lost",
        "kombu reads an answer under way, which fails, and then restores by a connection that is gone",
        "worker/main_process/bootstep",
        "        give_up_unanswered(c.connection)\n",
        "        pass\n",
        f"{HERE}/holding/test_prefetch.py",
    ),
    worker(
        "what cannot be read of a lost connection is an error",
        "so it is; but Celery ends the worker for it",
        "worker/main_process/bootstep",
        "    except Exception:\n        # An error here would end",
        "    except OSError:\n        # An error here would end",
        f"{UNREAD}::test_a_connection_that_cannot_be_read_is_closed_all_the_same",
    ),
    worker(
        "unread messages are left to the end of the connection",
        "kombu puts them back when it closes the channels",
        "worker/main_process/bootstep",
        "        give_back_unread(c.connection)\n",
        "        pass\n",
        f"{UNREAD}::test_of_an_idle_worker_that_shuts_down[celery.granted]",
    ),
    worker(
        "unread messages are read while the worker still consumes",
        "Celery cancels its own consumers a moment later",
        "worker/main_process/bootstep",
        "        ignore_errors(c, c.task_consumer.cancel)",
        "        pass",
        f"{UNREAD}::test_of_a_worker_that_shuts_down_warm[celery]",
    ),
    worker(
        "a server that hangs holds up the shutdown",
        "an answer of Redis comes in time",
        "worker/holding/unread",
        "    if _has_answered(channel):",
        "    if True:",
        f"{UNREAD}::test_a_server_that_hangs_holds_up_no_shutdown",
    ),
    worker(
        "an answer that came during a signal handler is left unread",
        "select says whether there is something to read",
        "worker/holding/unread",
        "    return bool(connection.can_read(0))",
        "    return False",
        f"{UNREAD}::test_a_signal_handler_outlasts_the_wait",
    ),
]

MUTANTS = (
    *ACKNOWLEDGING,
    *RELEASING,
    *RENEWING,
    *PUTTING_BACK,
    *PENDING_RELEASE,
    *LEAVING,
    *STOPPING,
)
