"""Wrong ideas about what a worker does with messages that wait, in its queues or in the store."""

from __future__ import annotations

from .mutant import Mutant
from .worker import COPIES, PUT_BACK

HERE = "tests/worker"
CAUGHT = f"{HERE}/test_caught_while_waiting.py"
ERRANDS = f"{HERE}/test_errands.py"
QUEUES = f"{HERE}/test_parking_queues.py"
ENDS = f"{HERE}/test_parking_ends.py"
OVERTAKES = f"{QUEUES}::test_overtakes_the_backlog_of_its_queue"


def parking(name: str, why: str, file: str, text: str, instead: str, *tests: str) -> Mutant:
    file = f"celery_semaphore/worker/{file}.py"
    return Mutant(f"parking/{name}", why, file, text, instead, tests)


INTO_THE_STORE = [
    parking(
        "acknowledged before attach",
        "the store was there a moment ago",
        "waiting",
        "        try:\n            outgoing = self._store.attach(",
        "        request.went_back()\n        try:\n            outgoing = self._store.attach(",
        f"{CAUGHT}::test_a_message_is_acknowledged_when_the_store_has_it",
    ),
    parking(
        "what is parked stays unacknowledged",
        "it comes back by the store, and once more when its worker ends",
        "waiting",
        "        request.went_back()\n        self._outgoing(outgoing)\n",
        "        self._outgoing(outgoing)\n",
        f"{CAUGHT}::test_a_message_is_acknowledged_when_the_store_has_it",
    ),
    parking(
        "any size is parked",
        "a store takes what a broker takes; but it keeps all of it in memory",
        "waiting",
        "        if len(payload) > self._largest:\n",
        "        if False:\n",
        f"{CAUGHT}::test_what_is_too_large_goes_to_its_queue",
    ),
    parking(
        "a message the store cannot take is given back",
        "the broker delivers it again at once, and again, while the store is away",
        "waiting",
        '            logger.warning("task %s is requeued, not parked: %s", request.id, error)\n'
        "            self._instead()\n",
        "            request.came_to_nothing()\n",
        f"{CAUGHT}::test_what_the_store_cannot_take_goes_to_its_queue",
    ),
    parking(
        "parked after its connection was lost",
        "the broker delivers it again, and it waits twice",
        "waiting",
        "        if not request.may_go_back():\n            return\n        payload",
        "        payload",
        f"{CAUGHT}::test_what_a_lost_connection_delivered_is_not_parked",
    ),
    parking(
        "nobody is revoked while it is being parked",
        "the sweep finds the revoked; but it looks for each once",
        "waiting",
        "            if request.id in state.revoked:",
        "            if False:",
        f"{CAUGHT}::test_who_was_revoked_meanwhile_is_looked_for_again",
    ),
    parking(
        "expiration is the transport's",
        "a parked message never expires in its queue",
        "message",
        'if name not in OF_THE_TRANSPORT or name == "expiration"',
        "if name not in OF_THE_TRANSPORT",
        f"{CAUGHT}::test_a_message_comes_out_as_it_went_in",
    ),
    parking(
        "a body is bytes",
        "some transports hand out text",
        "message",
        'return Parked(body=body.decode() if rest.pop("text") else body, **rest)',
        'return Parked(body=body if rest.pop("text") else body, **rest)',
        f"{CAUGHT}::test_a_message_comes_out_as_it_went_in",
    ),
    parking(
        "expires is ignored while parked",
        "Celery looks at it when the message comes; but who waits for the result waits until then",
        "request",
        "            ends.append(left + SURELY)\n",
        "            pass\n",
        f"{COPIES}::test_a_parked_wait_ends_when_it_expires",
    ),
    parking(
        "wait_timeout is ignored while parked",
        "nobody asks, so nobody is told that its time is over",
        "refusal",
        "        left = None if patience.timeout is None else patience.timeout - refusal.waited\n",
        "        left = None\n",
        f"{COPIES}::test_who_parks_says_so_and_for_how_long",
    ),
    parking(
        "who parks does not say so",
        "it is lost on the way to the main process, and the task requeued",
        "refusal",
        '        names = ("delay", "ticket", "asked", "parks", "left")\n',
        '        names = ("delay", "ticket", "asked", "left")\n',
        f"{COPIES}::test_who_parks_says_so_and_for_how_long",
    ),
]

OUT_OF_THE_STORE = [
    parking(
        "the store is told before the broker has it",
        "published a moment later; or never, if this worker dies",
        "waiting",
        "        sent: list[Grant] = []\n        try:\n",
        "        sent: list[Grant] = []\n        self._store.sent(self._grants)\n        try:\n",
        f"{CAUGHT}::test_the_store_is_told_what_the_broker_has",
    ),
    parking(
        "one that fails is told with the others",
        "all that was taken was sent",
        "waiting",
        "                self._store.sent(sent)\n",
        "                self._store.sent([*sent, *self._grants])\n",
        f"{CAUGHT}::test_the_store_is_told_what_the_broker_has",
    ),
    parking(
        "one that fails takes the others along",
        "the store is told when all are sent; those before the failure come twice",
        "waiting",
        "            if sent:\n",
        "            if sent and not self._grants:\n",
        f"{CAUGHT}::test_the_store_is_told_what_the_broker_has",
    ),
    parking(
        "one that cannot be sent holds up the others",
        "in order means in order",
        "waiting",
        "            self._grants.rotate(-1)  # one that cannot be sent holds up no other\n",
        "",
        f"{CAUGHT}::test_the_store_is_told_what_the_broker_has",
    ),
    parking(
        "taken anew at each attempt",
        "what was taken before is offered to nobody until its grant has ended",
        "waiting",
        "        if not self._grants:\n            self._grants.extend(self._store.take(self._outgoing))\n",
        "        self._grants = deque(self._store.take(self._outgoing))\n",
        f"{CAUGHT}::test_the_store_is_told_what_the_broker_has",
    ),
    parking(
        "a granted message needs no queue",
        "it is published to where nobody declared one, and the broker throws it away",
        "publisher",
        '            mandatory=driver == "amqp",\n',
        "            mandatory=False,\n",
        f"{CAUGHT}::test_a_message_that_no_queue_takes_comes_back",
    ),
    parking(
        "what comes back from the broker is tried again",
        "its queue will be there soon; but the worker that made it is gone for good",
        "waiting",
        "        except Returned:  # nobody consumes it any more\n",
        "        except ZeroDivisionError:\n",
        f"{CAUGHT}::test_who_has_no_queue_any_more_goes_to_its_own",
    ),
    parking(
        "its own queue is there",
        "it was once; but queues are deleted, too",
        "waiting",
        "            self._publisher.declare(message.queue)\n",
        "",
        f"{CAUGHT}::test_who_has_no_queue_any_more_goes_to_its_own",
    ),
    parking(
        "a wait is one message",
        "brought back twice, both are the one that was admitted, and both run",
        "waiting",
        "sent_back(os.urandom(8).hex(), 1, grant.ticket)",
        'sent_back("", 1, grant.ticket)',
        f"{CAUGHT}::test_each_that_is_brought_back_is_another_message",
    ),
    parking(
        "all attempts are one message",
        "one that was not confirmed and arrived nevertheless is no copy of the next",
        "waiting",
        "sent_back(request.holder, self._attempts, self._ticket)",
        "sent_back(request.holder, 1, self._ticket)",
        f"{CAUGHT}::test_each_attempt_is_another_message",
    ),
    parking(
        "first come, first served in the worker, too",
        "permits stay idle while a hundred messages are put back",
        "errands",
        "0.0 if errand.urgent else now",
        "now",
        f"{ERRANDS}::test_the_urgent_goes_first",
    ),
    parking(
        "what is brought back is not urgent",
        "an errand is an errand",
        "waiting",
        "    urgent = True  # a permit is kept for them\n",
        "    urgent = False\n",
        f"{ERRANDS}::test_the_urgent_goes_first",
    ),
    parking(
        "an errand that fails is tried until it is done",
        "and nobody else's is, meanwhile",
        "errands",
        "            entry.due = now + AGAIN * 2 ** (entry.attempts - 1)\n",
        "            entry.due = 0.0\n",
        f"{ERRANDS}::test_what_fails_holds_up_nobody",
    ),
    parking(
        "an errand is never given up",
        "the message stays with a worker that cannot do anything with it",
        "errands",
        "            if now - entry.since > self._timeout:\n",
        "            if False:\n",
        f"{ERRANDS}::test_what_fails_holds_up_nobody",
    ),
]

NOBODY_RELEASES = [
    parking(
        "the revoked are not looked for",
        "they hear of it when it is their turn, perhaps tomorrow",
        "sweeper",
        "            outgoing |= store.end(sorted(new))\n",
        "            pass\n",
        f"{ERRANDS}::test_a_sweep_looks_for_the_revoked",
    ),
    parking(
        "the revoked are looked for again and again",
        "each worker keeps fifty thousand of them, and asks every two seconds",
        "sweeper",
        "        self._known = revoked\n",
        "",
        f"{ERRANDS}::test_a_sweep_looks_for_the_revoked",
    ),
    parking(
        "the revoked are looked for once, whatever the store says",
        "it did not answer, and nobody asks again",
        "sweeper",
        "            outgoing |= store.end(sorted(new))\n        self._known = revoked\n",
        "            self._known = revoked\n            outgoing |= store.end(sorted(new))\n",
        f"{ERRANDS}::test_a_sweep_looks_for_the_revoked",
    ),
    parking(
        "a sweep does not reap",
        "whoever releases hands on; but clients have no broker, and workers die",
        "sweeper",
        "        outgoing = store.reap()\n",
        "        outgoing: Outgoing = frozenset()\n",
        f"{ERRANDS}::test_a_sweep_finds_what_nobody_sent",
    ),
    parking(
        "what a process handed on is forgotten",
        "the note is about its permit",
        "ledger",
        "        self._keeper.discard(holder)\n        self._handed_on(outgoing)\n",
        "        self._keeper.discard(holder)\n",
        f"{ERRANDS}::test_what_a_process_handed_on_is_sent",
    ),
    parking(
        "a note names all that was handed on",
        "with many resources it does not fit, and the task that has ended fails",
        "note",
        "note if len(note) < select.PIPE_BUF else",
        "note if note else",
        f"{ERRANDS}::test_a_note_of_much_that_was_handed_on",
    ),
    parking(
        "nobody sweeps",
        "renewing reaps as well; but only a sweep looks for the revoked",
        "bootstep",
        "            self.limiter.sweeper.start()\n",
        "            pass\n",
        f"{ENDS}::test_revoked_while_parked[site]",
    ),
]

WHICH_MESSAGE = [
    parking(
        "the store is not told which message asks",
        "a permit is for a task",
        "gate",
        "wait, headers.publication)",
        "wait)",
        f"{PUT_BACK}[early-after publish]",
    ),
    parking(
        "an unanswered acquire has run",
        "its process releases it as all others, and its message is taken for a copy",
        "gate",
        "        task.request.__dict__[ASKING] = (headers.holder, claims, None)\n",
        "",
        f"{COPIES}::test_an_unanswered_acquire_has_not_run",
    ),
    parking(
        "an unanswered acquire has run, says the main process",
        "the same, from there",
        "request",
        "            ledger.ended(self.holder)  # the store may have said yes to nobody\n",
        "            ledger.ended(self.holder, publication=self._publication)\n",
        f"{COPIES}::test_a_request_whose_acquire_was_not_answered_has_not_ended",
    ),
    parking(
        "a rejected message has run",
        "its body began; but the broker delivers it again, as its task wants",
        "local",
        "    if state == REJECTED:",
        "    if False:",
        f"{COPIES}::test_what_was_rejected_may_run_again",
    ),
    parking(
        "a returned message has run",
        "the same, in the main process",
        "request",
        "None if self._returned or cancelled else self._publication",
        "None if cancelled else self._publication",
        f"{COPIES}::test_a_request_that_was_returned_has_not_ended",
    ),
    parking(
        "the main process does not know what ran",
        "a task that failed with its process is run again by a copy",
        "request",
        "None if self._returned or cancelled else self._publication",
        "None",
        f"{COPIES}::test_the_end_of_a_request_names_its_message",
    ),
    parking(
        "a permit that went back was for nothing",
        "whoever releases in the process does not say what ran",
        "local",
        "        limiter.side.ledger.ended(holder, publication=publication)\n",
        "        limiter.side.ledger.ended(holder)\n",
        f"{COPIES}::test_what_was_rejected_may_run_again",
    ),
    parking(
        "a retry is the same wait",
        "what ran before it makes a copy of it, if it is delivered again",
        "headers",
        'f"{task_id}:{retries or 0}"',
        'f"{task_id}"',
        f"{COPIES}::test_a_retry_is_another_wait",
    ),
    parking(
        "a copy is dropped",
        "as a task that will not wait: its result says REVOKED, whatever the other one returned",
        "refusal",
        "    if refusal.reason in (Reason.COPY, Reason.RUNNING):\n",
        "    if refusal.reason is Reason.RUNNING:\n",
        f"{COPIES}::test_a_copy_is_acknowledged_and_nothing_else",
    ),
    parking(
        "a copy waits",
        "round and round, for nobody ever lets it in",
        "refusal",
        "    if refusal.reason is Reason.COPY:\n",
        "    if False:\n",
        f"{COPIES}::test_a_copy_is_acknowledged_and_nothing_else",
    ),
    parking(
        "what waits for its other message is a copy",
        "it is acknowledged, and the other one dies",
        "refusal",
        "    if refusal.reason is Reason.COPY:\n",
        "    if True:\n",
        f"{COPIES}::test_who_waits_for_its_other_message_comes_again",
    ),
]

QUEUES_BESIDE = [
    parking(
        "a retry goes to the granted queue",
        "to the queue it came from, as Celery does; it would overtake all others",
        "request",
        'came_by["routing_key"] = self._limiter.home_of(came_by["routing_key"] or "")',
        'came_by["routing_key"] = came_by["routing_key"] or ""',
        f"{COPIES}::test_a_retry_goes_to_its_own_queue",
    ),
    parking(
        "who waits again goes to the granted queue",
        "a queue for those with a permit fills with those that have none",
        "request",
        "return self._limiter.home_of(came_by)",
        "return came_by",
        f"{COPIES}::test_who_waits_again_goes_to_its_own_queue",
    ),
    parking(
        "whatever is called granted is ours",
        "a queue of the user's may have that name, and its messages go to another",
        "route",
        "return home if home in homes else queue",
        "return home",
        f"{COPIES}::test_who_waits_again_goes_to_its_own_queue",
    ),
    parking(
        "it comes back by the way that was planned",
        "granted queues were turned off meanwhile, and nobody consumes it",
        "waiting",
        "way = message.way if self._granted else message.queue",
        "way = message.way",
        f"{CAUGHT}::test_without_granted_queues_it_comes_by_its_own",
    ),
    parking(
        "all queues have a granted one",
        "with semaphore_granted_queues off nobody consumes it",
        "limiter",
        "granted_queue(queue) if queue in self.granted else queue",
        "granted_queue(queue)",
        f"{COPIES}::test_who_is_granted_comes_by_a_queue_that_is_consumed",
    ),
    parking(
        "nobody consumes the granted queues",
        "what is granted waits behind the backlog while its permit is idle",
        "bootstep",
        "            limiter.granted = _consume_granted(c, limiter)\n",
        "            pass\n",
        f"{OVERTAKES}[site]",
    ),
]

MUTANTS = (*INTO_THE_STORE, *OUT_OF_THE_STORE, *NOBODY_RELEASES, *WHICH_MESSAGE, *QUEUES_BESIDE)
