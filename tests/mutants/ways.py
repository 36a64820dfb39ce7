"""Wrong ideas about the ways of a task's message: by which headers, brokers and queues it comes and goes."""

from __future__ import annotations

from .worker import HERE, worker

BROKER = f"{HERE}/messages/test_brokers.py"
SCHEDULER = f"{HERE}/messages/test_scheduler.py"
FANOUT = f"{HERE}/messages/test_fanout.py"
FANOUT_START = f"{FANOUT}::test_others_may_be_routed_there"
FORGED = f"{HERE}/messages/test_forged_headers.py"
OPTIONS = "tests/task/test_options.py"
PURGE = "tests/ops/test_purge.py"
REPLACED = f"{HERE}/messages/test_replaced.py"

HEADERS = [
    worker(
        "a replacement is the task that it replaces",
        "it has its id, so it is another message of it: delivered again, it is taken for a copy",
        "worker/messages/ticket_header",
        "{retries}:{replaced}",
        "{retries}",
        f"{REPLACED}::test_a_replacement_that_is_delivered_again_runs[site]",
    ),
    worker(
        "a task is replaced once",
        "it is a replacement or it is none; but a replacement replaces itself by the next page",
        "worker/messages/ticket_header",
        'replaced = sent.get("retries") or 0, sent.get("replaced_task_nesting") or 0',
        'replaced = sent.get("retries") or 0, bool(sent.get("replaced_task_nesting"))',
        f"{REPLACED}::test_each_retry_and_each_replacement_is_another_wait",
    ),
    worker(
        "a retry is the task that it repeats",
        "it has its id too",
        "worker/messages/ticket_header",
        "{retries}:{replaced}",
        "{replaced}",
        f"{REPLACED}::test_each_retry_and_each_replacement_is_another_wait",
    ),
    worker(
        "headers are the sender's business",
        "they become attributes of the request, and one of them says that it has a permit",
        "worker/main_process/request",
        "        remove_internal(sent)",
        "        pass",
        FORGED,
    ),
    worker(
        "a permit is whatever has its name",
        "the main process has dropped what a message brought; but not with a Request class of another",
        "worker/pool_process/permit",
        "    return permit if isinstance(permit, TaskPermit) else None\n",
        "    return permit\n",
        FORGED,
    ),
    worker(
        "what is to be released is whatever has its name",
        "a task without a limit drops nothing from its headers, and releases the permit of another",
        "worker/pool_process/postrun",
        "    elif isinstance(pending, PendingRelease):  # else None, or the value of a header of this name\n",
        "    elif pending is not None:\n"
        "        pending = pending if isinstance(pending, PendingRelease) else PendingRelease(*pending)\n",
        FORGED,
    ),
]

BROKERS = [
    worker(
        "what waits is published as a task is sent",
        "by the connection for writing; but no worker consumes there",
        "worker/messages/publisher",
        "    connection = app.connection_for_read(connect_timeout=timeout)\n",
        "    connection = app.connection_for_write(connect_timeout=timeout)\n",
        f"{HERE}/messages/test_brokers.py::test_what_waits_stays_with_the_broker_that_workers_read[site-requeue]",
    ),
    worker(
        "the first of two brokers keeps permits",
        "every process knows both of them",
        "settings",
        "        if broker != other:  # ",
        "        if False:  # ",
        f"{OPTIONS}::test_two_brokers_are_no_default",
    ),
    worker(
        "without a visibility timeout that of Redis counts",
        "it is the default; but RabbitMQ has none, and ends the channel of a worker after half an hour",
        "settings",
        "longest_delay=(visibility or UNACKED_TIMEOUT_S) / 4",
        "longest_delay=(visibility or VISIBILITY_TIMEOUT_S) / 4",
        f"{OPTIONS}::test_without_a_visibility_timeout_half_an_hour_counts",
    ),
    worker(
        "a fanout exchange is one as any other",
        "the queue is known by its name; but Redis keeps none, and no worker reads the list",
        "worker/main_process/request",
        "        if self._limiter.loses_fanouts and ",
        "        if False and ",
        f"{FANOUT}::test_a_limited_task_fails_on_redis[hold]",
    ),
    worker(
        "no limited task comes by a fanout exchange",
        "but RabbitMQ keeps a queue for each worker",
        "worker/limiter",
        "        return not is_amqp(self._app)\n\n    @cached_property\n    def low_is_urgent",
        "        return True\n\n    @cached_property\n    def low_is_urgent",
        f"{FANOUT}::test_each_worker_runs_its_own_on_rabbitmq",
    ),
    worker(
        "the router is asked for a task's queue",
        "but a router may want the arguments of a call",
        "worker/task_checks",
        "        if named is None and isinstance(router, MapRoute):  # ",
        "        if named is None:  # ",
        FANOUT_START,
    ),
    worker(
        "a queue is known by its name alone",
        "a Broadcast has an alias, and another name in each process",
        "worker/task_checks",
        "    return queues.get(name) or queues.aliases.get(name)\n",
        "    return queues.get(name)\n",
        f"{FANOUT}::test_a_task_that_is_routed_there_stops_the_worker",
    ),
    worker(
        "what looks like an option may be the user's own",
        "a base class may define it",
        "task/misspelt",
        "                surely = surely or _is_plural(task, name, option)\n",
        "",
        "tests/test_misuses.py::test_a_wrong_option",
    ),
    worker(
        "an option that was given was meant by what looks like it",
        "they are alike",
        "task/misspelt",
        " or option in vars(task):\n",
        ":\n",
        f"{OPTIONS}::test_attributes_that_may_be_the_users_own_are_warned_of",
    ),
    worker(
        "each task that waits for the store is a warning",
        "each has a reason",
        "worker/pool_process/gate",
        "answer_known=True, level=logging.INFO",
        "answer_known=True",
        "tests/worker/test_faults.py::test_the_store_cannot_be_reached",
    ),
    worker(
        "a task with a Strategy is limited",
        "it has our class; but none of its messages becomes a request",
        "task/options",
        "    if task.Strategy != Task.Strategy:\n",
        "    if False:\n",
        OPTIONS,
    ),
    worker(
        "a purged message has its id in its headers",
        "those of protocol 1 have it in their body",
        "ops/purge",
        '    request = Context({**message.headers, **_from_body(app, task_id, message), "id": task_id})\n',
        '    request = Context({**message.headers, "id": message.headers["id"]})\n',
        PURGE,
    ),
    worker(
        "the body of protocol 1 is as that of protocol 2",
        "but it is a mapping, with the chord in it",
        "ops/purge",
        "        if isinstance(body, dict):  # ",
        "        if False:  # ",
        PURGE,
    ),
]

AWAY = [
    worker(
        "two URLs are enough",
        "the next attempt tries others; but each message waits for it",
        "worker/messages/publisher",
        "ensure_connection(max_retries=others,",
        "ensure_connection(max_retries=min(others, 1),",
        f"{BROKER}::test_the_url_that_worked_is_tried_first",
    ),
    worker(
        "each connection begins with the first URL",
        "a new one is a fresh start; but those that are down cost their time-outs each time",
        "worker/messages/publisher",
        "self._connection or _confirming(",
        "_confirming(",
        f"{BROKER}::test_the_url_that_worked_is_tried_first",
    ),
    worker(
        "kombu goes on to the next URL",
        "but not when its time is over: one that hangs is asked for ever",
        "worker/messages/publisher",
        "            connection.maybe_switch_next()  # ",
        "            pass  # ",
        f"{BROKER}::test_a_url_that_hangs_does_not_keep_from_the_next",
    ),
    worker(
        "an outage is said at each attempt",
        "it is true each time; but it lasts for hours",
        "worker/messages/publisher",
        "            if not self._away:  # ",
        "            if True:  # ",
        f"{BROKER}::test_an_outage_is_said_once",
    ),
    worker(
        "an outage ends without a word",
        "its beginning was said, and now it stands there as the last word",
        "worker/messages/publisher",
        "        if self._away:\n            logger",
        "        if False:\n            logger",
        f"{BROKER}::test_an_outage_is_said_once",
    ),
    worker(
        "a message that cannot be put back is returned",
        "another worker may do better; but a quorum queue drops it after a few deliveries",
        "worker/messages/move_job",
        "        return tried_for < self.longest and not isinstance(error, Unroutable)\n",
        "        return False\n",
        f"{BROKER}::test_what_cannot_be_put_back_stays_in_hand",
    ),
    worker(
        "a message without a way back is kept",
        "it is tried for ever, and does not run while its worker lives",
        "worker/messages/move_job",
        "        return tried_for < self.longest and not isinstance(error, Unroutable)\n",
        "        return tried_for < self.longest\n",
        f"{SCHEDULER}::test_a_message_is_kept_unless_it_has_no_way_back",
    ),
    worker(
        "a message is kept however long it takes",
        "RabbitMQ ends the channel after its consumer_timeout, and Celery the worker",
        "worker/messages/move_job",
        "        return tried_for < self.longest and not isinstance(error, Unroutable)\n",
        "        return not isinstance(error, Unroutable)\n",
        f"{SCHEDULER}::test_a_message_is_kept_unless_it_has_no_way_back",
    ),
    worker(
        "what lasts is asked how long it has lasted in vain",
        "each failure is the first",
        "worker/messages/scheduler",
        "        tried_for = now - entry.since\n",
        "        tried_for = 0.0\n",
        f"{SCHEDULER}::test_what_lasts_for_a_time_is_given_up_then",
    ),
    worker(
        "a message's queue is looked up when it goes back",
        "its consumer knows its tags; but it forgets them when it is cancelled",
        "worker/main_process/request",
        "queue_of(self._app, self._by_tag, info)",
        "queue_of(self._app, None, info)",
        f"{BROKER}::test_a_shutdown_puts_each_message_back_into_its_own_queue",
    ),
    worker(
        "what lasts is given up too",
        "a time-out is a time-out",
        "worker/messages/scheduler",
        "> self._timeout and not entry.job.lasts(error, tried_for):\n",
        "> self._timeout:\n",
        f"{SCHEDULER}::test_what_lasts_is_not_given_up",
    ),
    worker(
        "each failure is said",
        "it may be another one; but it fails for hours, and every few seconds",
        "worker/messages/scheduler",
        "logging.DEBUG if entry.attempts else logging.WARNING",
        "logging.WARNING",
        f"{SCHEDULER}::test_what_lasts_is_not_given_up",
    ),
    worker(
        "pauses double for ever",
        "after an hour of outage the next attempt is an hour away",
        "worker/messages/scheduler",
        "    return min(FIRST_PAUSE_S * 2.0 ** min(attempts, 30), LONGEST_PAUSE_S)\n",
        "    return FIRST_PAUSE_S * 2.0 ** min(attempts, 30)\n",
        f"{SCHEDULER}::test_pauses_grow_and_are_bounded",
    ),
    worker(
        "a shutdown waits for pauses",
        "what pauses now is tried later; but then the worker is gone",
        "worker/messages/scheduler",
        "                entry.due = min(entry.due, now)  # ",
        "                pass  # ",
        f"{SCHEDULER}::test_a_flush_waits_for_no_pause",
    ),
]

MUTANTS = (*HEADERS, *BROKERS, *AWAY)
