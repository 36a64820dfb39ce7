"""Wrong ideas about which queues are consumed."""

from __future__ import annotations

from .mutant import Group
from .named import on_memory, on_postgresql, on_redis

HERE = "tests/worker/messages"
SAID = f"{HERE}/test_consumed_queues.py"
SENT = f"{HERE}/test_waiting.py"
LIVE = f"{HERE}/test_unconsumed_queues.py"
RIGHTS = "tests/worker/main_process/test_granted_rights.py"
QUEUES = f"{HERE}/test_parking_queues.py"

queues = Group("queues", "celery_semaphore/worker")

LONG_AGO = ("a worker counts for ever", "it said so; and at its end it says farewell")
AHEAD = ("a worker of before a step of the clock counts", "its time has not come")
LEFT = ("a worker that left counts", "its time is not over")

IN_STORES = [
    on_memory(
        *LONG_AGO,
        "consumed_queues",
        "if abs(now - at) < lasts}",
        "if at - now < lasts}",
        noticed_by="test_a_worker_that_says_no_more_is_forgotten",
    ),
    on_memory(
        *AHEAD,
        "consumed_queues",
        "if abs(now - at) < lasts}",
        "if now - at < lasts}",
        noticed_by="test_no_worker_counts_for_the_length_of_a_step_back",
    ),
    on_memory(
        *LEFT,
        "consumed_queues",
        "            self.said.get(queue, {}).pop(worker, None)\n",
        "            pass\n",
        noticed_by="test_a_queue_is_consumed_until_its_last_worker_left",
    ),
    on_redis(
        *LONG_AGO,
        "unconsumed",
        'string.format("(%.0f", now - kept)',
        '"-inf"',
        noticed_by="test_a_worker_that_says_no_more_is_forgotten",
    ),
    on_redis(
        *AHEAD,
        "unconsumed",
        'string.format("(%.0f", now + kept)',
        '"+inf"',
        noticed_by="test_no_worker_counts_for_the_length_of_a_step_back",
    ),
    on_redis(
        *LEFT,
        "consume",
        '        call("ZREM", KEYS[n], arg(1))\n',
        "",
        noticed_by="test_a_queue_is_consumed_until_its_last_worker_left",
    ),
    on_redis(
        "a worker takes its queue along",
        "the queue is its own",
        "consume",
        '        call("ZREM", KEYS[n], arg(1))\n',
        '        call("DEL", KEYS[n])\n',
        noticed_by="test_a_queue_is_consumed_until_its_last_worker_left",
    ),
    on_postgresql(
        *LONG_AGO,
        "v1/consumed_queues.sql",
        " AND c.said > now - kept",
        "",
        noticed_by="test_a_worker_that_says_no_more_is_forgotten",
    ),
    on_postgresql(
        *AHEAD,
        "v1/consumed_queues.sql",
        " AND c.said < now + kept",
        "",
        noticed_by="test_no_worker_counts_for_the_length_of_a_step_back",
    ),
    on_postgresql(
        *LEFT,
        "v1/consumed_queues.sql",
        "WHERE c.queue = ANY (_left) AND c.worker = _worker;",
        "WHERE false;",
        noticed_by="test_a_queue_is_consumed_until_its_last_worker_left",
    ),
    on_postgresql(
        "a worker takes its queue along",
        "the queue is its own",
        "v1/consumed_queues.sql",
        "WHERE c.queue = ANY (_left) AND c.worker = _worker;",
        "WHERE c.queue = ANY (_left);",
        noticed_by="test_a_queue_is_consumed_until_its_last_worker_left",
    ),
]

ENDS = ("a message that does not arrive keeps its permit", "the message may come some day")
LATER = ("a reap finds the permit of a message that does not arrive later", "its lease is not over")
OUTBOX = "test_the_permit_of_one_that_does_not_arrive_is_handed_on"

NOT_ARRIVED = [
    on_memory(
        *ENDS,
        "store",
        "state.take_up if arrive else 0)",
        "state.take_up)",
        noticed_by=OUTBOX,
    ),
    on_redis(
        *ENDS,
        "sent",
        "now + (arg(4) and 0 or waits.TAKE_UP)",
        "now + waits.TAKE_UP",
        noticed_by=OUTBOX,
    ),
    on_postgresql(
        *ENDS,
        "v1/outbox.sql",
        "CASE WHEN _arrive THEN m.now + m.take_up ELSE m.now END",
        "m.now + m.take_up",
        noticed_by=OUTBOX,
    ),
    on_redis(
        *LATER,
        "sent",
        "holders.update_index(at, arg(4) and now)",
        "holders.update_index(at)",
        noticed_by=OUTBOX,
    ),
    on_postgresql(
        *LATER,
        "v1/outbox.sql",
        "                IF NOT _arrive THEN\n",
        "                IF false THEN\n",
        noticed_by=OUTBOX,
    ),
]

SAYING = [
    queues(
        "only what was said is left",
        "a call without an answer did nothing",
        "messages/consumed_queues",
        "                self._said |= now  # in case the answer is lost\n",
        "",
        f"{SAID}::test_what_it_left_while_the_answer_was_lost",
    ),
    queues(
        "a worker without a connection consumes nothing",
        "that is true; but all workers notice a short outage of the broker, and all that is parked goes there",
        "messages/consumed_queues",
        "        self._read = None\n\n    def leave",
        "        self._read = tuple\n\n    def leave",
        f"{SAID}::test_a_lost_connection_is_no_farewell",
    ),
    queues(
        "the sweep says soon enough what a worker left",
        "it is a matter of milliseconds; but a permit idles for thirty seconds",
        "messages/consumed_queues",
        "        if self._read is not None and own != self._said:\n            self.say()",
        "        if False:\n            self.say()",
        f"{SAID}::test_a_queue_that_it_just_left_has_no_consumer",
    ),
    queues(
        "a worker that ends may connect",
        "it has a connection",
        "messages/consumed_queues",
        "        if self._ended:\n            return\n",
        "",
        f"{SAID}::test_a_worker_that_ends_consumes_nothing_again",
    ),
    queues(
        "the store is asked for each task",
        "it has the truth",
        "messages/consumed_queues",
        "ANSWER_LASTS_S = 1.0",
        "ANSWER_LASTS_S = 0.0",
        f"{SAID}::test_an_answer_holds_for_a_second",
    ),
    queues(
        "an answer of the store holds",
        "workers come and go seldom",
        "messages/consumed_queues",
        "if known[0] > now}",
        "if known}",
        f"{SAID}::test_an_answer_holds_for_a_second",
    ),
    queues(
        "a worker that ends says nothing",
        "what it said ends by itself",
        "main_process/bootstep",
        "            limiter.queues.leave()\n",
        "            limiter.queues.disconnected()\n",
        f"{LIVE}::test_the_tasks_of_another_queue_go_on[site-stopped]",
    ),
]

SENDING = [
    queues(
        "a task keeps its permit in a queue without a worker",
        "it was granted one",
        "messages/bring_back",
        "                self._store.sent(stranded, arrive=False)\n",
        "                self._store.sent(stranded)\n",
        f"{SENT}::test_without_a_worker_it_goes_home_without_its_permit",
    ),
    queues(
        "a task without a permit says that it has one",
        "it was granted one; but what is released by its ticket later would be another wait of it",
        "messages/bring_back",
        "keeps=grant.token > 0 and not is_stranded)",
        "keeps=grant.token > 0)",
        f"{SENT}::test_without_a_worker_it_goes_home_without_its_permit",
    ),
    queues(
        "a sweep hands on soon enough",
        "it is a matter of two seconds; for each task of that queue",
        "messages/bring_back",
        "                self._found(self._store.reap())  # hand their permits on\n",
        "",
        f"{SENT}::test_the_next_in_line_gets_the_permit_at_once",
    ),
    queues(
        "one that was ended is warned of",
        "no worker consumes its queue",
        "messages/bring_back",
        "is_stranded = ways[0] in unconsumed and grant.token > 0",
        "is_stranded = ways[0] in unconsumed",
        f"{SENT}::test_one_that_was_ended_needs_no_worker",
    ),
    queues(
        "only workers that park consume granted queues",
        "nothing else comes by them; but what others parked does",
        "main_process/bootstep",
        "        if limiter.settings.granted_queues:\n",
        "        if limiter.worker.parking and limiter.settings.granted_queues:\n",
        f"{LIVE}::test_a_worker_that_only_requeues_takes_what_others_parked[site]",
    ),
    queues(
        "a worker has the right to its granted queues",
        "it declares its other queues, too",
        "main_process/granted_rights",
        "if queue.exclusive or _may_have(c, connection, queue)]",
        "if queue.exclusive or True]",
        RIGHTS,
    ),
    queues(
        "the right to declare a queue is one to read it",
        "who makes a queue may use it",
        "main_process/granted_rights",
        "        if reads:  # Redis",
        "        if False:  # Redis",
        f"{RIGHTS}",
    ),
]

EMPTYING = [
    queues(
        "granted queues that no worker consumes are left alone",
        "they are of workers that will come back",
        "limiter",
        "        self.mover.empty(without_granted(self.queues.own()))\n",
        "",
        f"{LIVE}::test_a_granted_queue_without_a_consumer_is_emptied[site]",
    ),
    queues(
        "the last worker of a queue leaves what it was granted",
        "another one may come",
        "main_process/bootstep",
        "                limiter.mover.empty(limiter.worker.homes)  # while tasks still run here\n",
        "",
        f"{LIVE}::test_the_last_worker_takes_no_permit_along[site]",
    ),
    queues(
        "a message that is moved home keeps its permit",
        "it was granted one",
        "messages/emptier",
        "            self._handed_on(self._store.release(*grant))\n",
        "            pass\n",
        f"{LIVE}::test_the_last_worker_takes_no_permit_along[site]",
    ),
    queues(
        "all that lies in a queue of that name was granted",
        "its name says so; but it may be a queue of the user",
        "messages/emptier",
        "        if carried is None:\n            message.requeue()\n            return False\n",
        "        carried = carried or Carried(1, 'x', '')\n",
        f"{LIVE}::test_a_queue_of_the_user_is_not_emptied[site]",
    ),
]

MUTANTS = (*IN_STORES, *NOT_ARRIVED, *SAYING, *SENDING, *EMPTYING)
