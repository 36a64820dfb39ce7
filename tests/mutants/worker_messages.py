"""Wrong ideas about a worker's messages: acknowledged, published, parked and brought back, whatever is lost between."""

from __future__ import annotations

from .mutant import Group

worker = Group("worker", "celery_semaphore/worker")
parking = Group(
    "parking",
    "celery_semaphore/worker",
    ".py",
    ("tests/worker/messages/test_waiting.py::test_the_store_is_told_what_the_broker_has",),
)
granted = Group("granted", "celery_semaphore/worker")

MUTANTS = (
    worker(
        "acknowledged when accepted",
        "as Celery does: a process that dies before its permit takes the waiting task along",
        "main_process/request",
        ("        if self._accepting and not self.task.acks_late:\n            return\n"),
        "",
        "tests/worker/test_windows.py::test_child_dies_before_its_permit_is_noted[early-SUCCESS-after asked]",
    ),
    worker(
        "acknowledged before the new message is published",
        "a refusal travels through on_success, where every early ack seemed to be due",
        "main_process/request",
        "                    if not failed:",
        "                    if True:",
        "tests/worker/test_windows.py::test_main_process_dies_while_it_puts_a_message_back[early-before publish]",
    ),
    worker(
        "went back before the broker said so",
        "the message is acknowledged when its successor is about to be sent",
        "messages/put_back",
        (
            "        self.publisher.publish(request.message, request.came_from(), header=header, delay=delay)\n"
            "        request.on_put_back()\n"
        ),
        (
            "        request.on_put_back()\n"
            "        self.publisher.publish(request.message, request.came_from(), header=header, delay=delay)\n"
        ),
        "tests/worker/messages/test_publisher.py::test_not_acknowledged_before_its_successor_is_published",
    ),
    worker(
        "a task whose process died early has failed",
        "WorkerLostError, although its body never began",
        "main_process/request",
        ("            isinstance(exc, DIED)\n            and not self.task.acks_late\n"),
        ("            False\n            and not self.task.acks_late\n"),
        "tests/worker/test_windows.py::test_child_dies_before_its_permit_is_noted[early-SUCCESS-before acquire]",
    ),
    worker(
        "a task whose process died with its permit is delivered again",
        "it may have begun, and early acks promise that it runs once at most",
        "main_process/request",
        (
            "            and not self.acknowledged\n"
            "            and not self._already_revoked\n"
            "            and not self._already_cancelled\n"
            "            and not self._limiter.process.ledger.holds(self.holder)\n"
        ),
        (
            "            and not self._already_revoked\n"
            "            and not self._already_cancelled\n"
        ),
        "tests/worker/test_windows.py::test_child_dies_after_its_permit_was_noted[early-FAILURE]",
    ),
    worker(
        "a lost connection changes nothing",
        "what it delivered is put back, and the broker delivers it again as well",
        "main_process/request",
        "        return self._connection == self._limiter.worker.connections\n",
        "        return True\n",
        "tests/worker/main_process/test_request.py::test_what_a_lost_connection_delivered_is_not_put_back",
    ),
    worker(
        "nothing is flushed at a shutdown",
        "what is being published is acknowledged later, on a connection that is closed",
        "main_process/bootstep",
        "                limiter.mover.flush(_longest_flush(limiter.settings.publish_timeout))\n",
        "                pass\n",
        "tests/worker/messages/test_publisher.py::test_a_shutdown_waits_for_what_is_being_published",
    ),
    parking(
        "acknowledged before attach",
        "the store was there a moment ago",
        "messages/park",
        "            outgoing = self.store.attach(",
        ("            request.on_parked()\n            outgoing = self.store.attach("),
        "tests/worker/messages/test_waiting.py::test_a_message_is_acknowledged_when_the_store_has_it",
    ),
    parking(
        "what is parked stays unacknowledged",
        "it comes back by the store, and once more when its worker ends",
        "messages/park",
        ("        request.on_parked()\n        self.outgoing(outgoing)\n"),
        "        self.outgoing(outgoing)\n",
        "tests/worker/messages/test_waiting.py::test_a_message_is_acknowledged_when_the_store_has_it",
    ),
    parking(
        "parked after its connection was lost",
        "the broker delivers it again, and it waits twice",
        "messages/park",
        ("        if not request.may_be_moved():\n            return\n"),
        "",
        "tests/worker/messages/test_waiting.py::test_what_a_lost_connection_delivered_is_not_parked",
    ),
    parking(
        "the store is told before the broker has it",
        "published a moment later; or never, if this worker dies",
        "messages/bring_back",
        ("        stranded: list[Grant] = []\n        try:\n"),
        (
            "        stranded: list[Grant] = []\n"
            "        self._store.sent([grant for grant, _ in self._messages])\n"
            "        try:\n"
        ),
    ),
    parking(
        "one that fails is told with the others",
        "all that was taken was sent",
        "messages/bring_back",
        "                self._store.sent(sent)\n",
        "                self._store.sent([*sent, *(grant for grant, _ in self._messages)])\n",
    ),
    parking(
        "taken anew at each attempt",
        "what was taken before is offered to nobody until its grant has ended",
        "messages/bring_back",
        "            self._messages.extend(self._sendable(taken))\n",
        (
            "            pass\n"
            "        self._messages = deque(self._sendable(self._store.take(self._outgoing)))\n"
        ),
    ),
    parking(
        "a wait is one message",
        "brought back twice, both are the one that was admitted, and both run",
        "messages/bring_back",
        "sent_back(os.urandom(8).hex(), 1, grant.ticket, message.refusals, ",
        'sent_back("", 1, grant.ticket, message.refusals, ',
        "tests/worker/messages/test_waiting.py::test_each_that_is_brought_back_is_another_message",
    ),
    parking(
        "an unanswered acquire has run",
        "its process releases it as all others, and its message is taken for a copy",
        "pool_process/gate",
        "        task.request.__dict__[PENDING_RELEASE] = PendingRelease(holder, claims)\n",
        "",
        "tests/worker/messages/test_copies.py::test_an_unanswered_acquire_has_not_run",
    ),
    parking(
        "a rejected message has run",
        "its body began; but the broker delivers it again, as its task wants",
        "pool_process/postrun",
        "    if state in (None, REJECTED):",
        "    if state is None:",
        "tests/worker/messages/test_copies.py::test_what_was_rejected_may_run_again",
    ),
    parking(
        "a sweep does not reap",
        "whoever releases hands on; but clients have no broker, and workers die",
        "messages/sweeper",
        "        outgoing = store.reap()\n",
        "        outgoing: Outgoing = frozenset()\n",
        "tests/worker/messages/test_scheduler.py::test_a_sweep_finds_what_nobody_sent",
    ),
    granted(
        "a granted queue is emptied by its worker alone",
        "what another one sent just then keeps its permit for a lease",
        "messages/bring_back",
        "                        self._sent_to(parked.queue)\n",
        "                        pass\n",
        "tests/worker/messages/test_unconsumed_queues.py::test_the_last_worker_ends_while_another_one_sends",
    ),
    granted(
        "an ending worker empties its granted queues once",
        "what RabbitMQ takes back a moment later keeps its permit for a lease",
        "messages/message_mover",
        "        self.watch(homes)  # what goes back may come a moment later\n",
        "",
        "tests/worker/messages/test_emptier.py::test_sweeps_watch_a_queue_for_a_while",
    ),
    granted(
        "a queue that was not there is not looked at for ten minutes",
        "a task that was sent there since then waits without a worker",
        "messages/message_mover",
        "            self._absent.pop(home, None)  # it may be there by now\n",
        "            pass\n",
        "tests/worker/messages/test_emptier.py::test_sweeps_watch_a_queue_for_a_while",
    ),
    granted(
        "a queue is watched once the broker confirmed",
        "a task that arrived, but for its confirm, is not looked for",
        "messages/bring_back",
        """                finally:
                    if ways[0] != parked.queue:""",
        """                except ZeroDivisionError:
                    pass
                else:
                    if ways[0] != parked.queue:""",
        "tests/worker/messages/test_waiting.py::test_a_queue_is_watched_after_an_error_too",
    ),
    granted(
        "a worker without a connection empties queues",
        "the others could not say what they consume: their granted tasks go behind the backlog",
        "limiter",
        "        if self.queues.is_connected():\n",
        "        if True:\n",
        "tests/worker/messages/test_emptier.py::test_sweeps_watch_a_queue_for_a_while",
    ),
    granted(
        "queues are watched across epochs",
        "a store that forgot knows no consumer: granted tasks of living workers go behind the backlog",
        "messages/message_mover",
        "            self.forget_watched()\n",
        "",
        "tests/worker/messages/test_emptier.py::test_sweeps_watch_a_queue_for_a_while",
    ),
    granted(
        "each sweep adds a job",
        "while the broker is slow, other messages wait for all of them",
        "messages/message_mover",
        "        if self._sweeping is None or self._sweeping.over:\n",
        "        if True:\n",
        "tests/worker/messages/test_emptier.py::test_one_sweep_at_a_time_empties_queues",
    ),
    granted(
        "a queue is watched for ever",
        "each sweep looks at every queue that a task was ever sent to",
        "messages/message_mover",
        " if at >= since}\n",
        "}\n",
        "tests/worker/messages/test_emptier.py::test_sweeps_watch_a_queue_for_a_while",
    ),
    granted(
        "it is published while its process may hold the permit",
        "the sooner the better; but the new one is refused, since the old one may run",
        "permits/ledger",
        "        give_back = partial(self._give_back, holder, message_id, then)\n",
        (
            "        self._releaser.after(holder, then or (lambda: None))\n"
            "        give_back = partial(self._give_back, holder, message_id, None)\n"
        ),
        "tests/worker/messages/test_granted_home.py::test_waits_for_its_process_to_be_gone",
    ),
    granted(
        "a granted message stays where it came",
        "a process will be free before long",
        "main_process/unstarted_messages",
        "            self._find_others()\n",
        "            pass\n",
        "tests/worker/messages/test_granted_elsewhere.py::test_no_permit_idles_beside_a_free_process[limit 1-site]",
    ),
    granted(
        "a revoked one keeps its grant",
        "it ends by itself",
        "main_process/request",
        ("        if ended:\n            self.end_grant()\n"),
        "",
        "tests/worker/messages/test_granted_ends.py::test_three_revoked_by_stamps",
    ),
)
