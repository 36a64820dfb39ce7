"""Wrong ideas about a store that workers of several brokers use."""

from __future__ import annotations

from .mutant import Group
from .named import on_memory, on_postgresql, on_redis

NAMES = "tests/worker/messages/test_broker_names.py"
LIVE = "tests/worker/messages/test_two_brokers.py"

brokers = Group("brokers", "celery_semaphore/worker/messages")

ANY = ("any worker takes a message out of the outbox", "it can publish it")
GONE = ("what a caller cannot send leaves the outbox", "it was looked at")
MOVED = ("a wait that is refused again is of no broker", "its message says it")
HIDES = ("only the first of the outbox are looked at", "its own workers take the others before")
HOUR = ("a broker counts for ever", "it was named")
AHEAD = ("a broker of before a step of the clock counts", "its hour is not over")

IN_STORES = [
    on_memory(
        *ANY,
        "outbox",
        'if broker is not None and waiter.broker not in ("", broker):',
        "if False:",
        noticed_by="test_each_broker_takes_its_own",
    ),
    on_memory(
        *GONE,
        "outbox",
        "    at.outbox = kept\n",
        "    at.outbox.clear()\n",
        noticed_by="test_what_stays_is_found_by_each_sweep",
    ),
    on_memory(
        *MOVED,
        "acquisition",
        'broker=before.broker, session=""',
        'session=""',
        noticed_by="test_a_wait_that_is_refused_again_keeps_its_broker",
    ),
    on_memory(
        *HOUR,
        "consumed_queues",
        "if abs(now - at) < BROKER_FOR}",
        "if at - now < BROKER_FOR}",
        noticed_by="test_a_broker_counts_for_an_hour",
    ),
    on_redis(
        *ANY,
        "take",
        "    return broker and info and info.broker and info.broker ~= broker\n",
        "    return false\n",
        noticed_by="test_each_broker_takes_its_own",
    ),
    on_redis(
        *HIDES,
        "take",
        "if left > 0 and many > OTHERS then",
        "if false then",
        noticed_by="test_many_of_another_broker",
    ),
    on_redis(
        *MOVED,
        "_own_wait",
        "            asked.broker = before.broker\n",
        "",
        noticed_by="test_a_wait_that_is_refused_again_keeps_its_broker",
    ),
    on_redis(
        *AHEAD,
        "brokers",
        'call("ZREMRANGEBYSCORE", named, now + kept, "+inf")',
        "local _ = 0",
        noticed_by="test_no_broker_counts_for_the_length_of_a_step_back",
    ),
    on_postgresql(
        *ANY,
        "v1/outbox.sql",
        " AND (_broker IS NULL OR w.broker IN ('', _broker))",
        "",
        noticed_by="test_each_broker_takes_its_own",
    ),
    on_postgresql(
        *MOVED,
        "v1/refuse.sql",
        "CASE WHEN stays THEN stood.broker ELSE '' END",
        "''",
        noticed_by="test_a_wait_that_is_refused_again_keeps_its_broker",
    ),
    on_postgresql(
        "a message that is attached anew stays of the first broker",
        "it is one wait",
        "v1/attach.sql",
        "broker = excluded.broker, ",
        "",
        noticed_by="test_the_newest_message_says_the_broker",
    ),
    on_postgresql(
        *HOUR,
        "v1/consumed_queues.sql",
        "WHERE b.named > now - kept AND b.named < now + kept",
        "WHERE b.named < now + kept",
        noticed_by="test_a_broker_counts_for_an_hour",
    ),
]

SENDING = [
    brokers(
        "a worker takes what any broker has to send",
        "whoever hands on sends",
        "bring_back",
        "self._store.take(self._outgoing, self._brokers.of_outbox)",
        "self._store.take(self._outgoing)",
        f"{LIVE}::test_each_task_runs_in_its_own_broker",
    ),
    brokers(
        "a parked message is of no broker",
        "a store has one",
        "message_mover",
        "            broker=self._brokers.own,\n",
        '            broker="",\n',
        f"{LIVE}::test_each_task_runs_in_its_own_broker",
    ),
    brokers(
        "a queue is one in all brokers",
        "its name says which it is",
        "consumed_queues",
        '/{queue}" if broker else queue',
        '/{queue}" if False else queue',
        f"{NAMES}::test_a_queue_of_another_broker_does_not_pass_for_consumed",
    ),
    brokers(
        "a worker that has just started is alone",
        "the store names no other broker; but its workers may start later",
        "brokers",
        "time.monotonic() - since >= ALONE_S",
        "True",
        f"{NAMES}::test_a_worker_that_starts_first_after_a_night_takes_nothing_of_others",
    ),
    brokers(
        "a worker that was alone once is alone",
        "the others were gone",
        "brokers",
        "        if others or not consumes:\n            self._alone_since = None\n",
        "        if not consumes:\n            self._alone_since = None\n",
        f"{NAMES}::test_another_broker_that_returns_ends_it",
    ),
    brokers(
        "what is left of a broker that moved is anybody's",
        "else it stays for ever; but the task must be known where it is sent",
        "brokers",
        '        known = parked.queue in consumed and parked.headers.get("task") in self._app.tasks\n',
        "        known = True\n",
        f"{NAMES}::test_a_worker_that_was_long_alone_takes_those_of_a_broker_that_moved",
    ),
    brokers(
        "tasks are parked beside another broker's",
        "the store is safe enough",
        "parking_watch",
        "        decision = decision.beside(self._brokers.own, others)\n",
        "",
        f"{LIVE}::test_by_default_they_are_kept",
    ),
    brokers(
        "a worker does not name its broker",
        "it parks nothing",
        "parking_watch",
        "        self._consumes = True\n",
        "",
        f"{LIVE}::test_by_default_they_are_kept",
    ),
    brokers(
        "the name of a broker has its port only if that is given",
        "the default goes without saying",
        "broker",
        '{port or default}" if port or default else host',
        '{port}" if port else host',
        f"{NAMES}::test_one_broker_has_one_name",
    ),
    brokers(
        "a broker is its server",
        "its address says where it is; but a database or a virtual host is a broker of its own",
        "broker",
        '/{where}", *chosen])',
        '/", *chosen])',
        f"{NAMES}::test_other_brokers_have_other_names",
    ),
]

MUTANTS = (*IN_STORES, *SENDING)
