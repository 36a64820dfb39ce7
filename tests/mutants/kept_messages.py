"""Wrong ideas about the messages that a worker keeps while their tasks wait: they are lost, run twice, or idle."""

from __future__ import annotations

from .mutant import Group

kept = Group("kept", "celery_semaphore/worker")
asking = Group("asking", "celery_semaphore/worker")
hoarding = Group("hoarding", "celery_semaphore/worker")
LOST = "tests/worker/keeping/test_lost_messages.py"

MUTANTS = (
    kept(
        "a message is kept until it is due",
        "the broker delivers it again meanwhile, and it runs twice",
        "keeping/kept_messages",
        "            if kept.due > kept.keep_until:\n",
        "            if False:\n",
        "tests/worker/keeping/test_kept_messages.py::test_what_is_due_later_than_it_may_be_kept_is_given_back",
    ),
    kept(
        "what has left is still in the timetable",
        "it runs, and is given back as well when it would have been kept for too long",
        "keeping/kept_messages",
        "                if kept in self._messages:\n",
        "                if True:\n",
        "tests/worker/keeping/test_kept_messages.py::test_what_has_left_is_not_given_back",
    ),
    kept(
        "any thread enters it",
        "the loop goes through them meanwhile",
        "keeping/kept_messages",
        "        self._in_loop(self._receive)\n",
        "        self._receive()\n",
        "tests/worker/keeping/test_kept_messages.py::test_another_thread_only_queues_it",
    ),
    kept(
        "a lost connection leaves them",
        "each begins here, and the broker delivers it again",
        "keeping/kept_messages",
        "        self._messages.clear()\n",
        "        pass\n",
        "tests/worker/keeping/test_kept_messages.py::test_what_a_lost_connection_delivered_is_forgotten",
    ),
    kept(
        "Redis forgets a message that it had no room for",
        "it is taken out first, and the server is full",
        "keeping/redis_redelivery",
        (
            '        redis.call("RPUSH", KEYS[tonumber(ARGV[n + 3])], ARGV[n + 4])\n'
            '        redis.call("HDEL", KEYS[1], ARGV[n])\n'
        ),
        (
            '        redis.call("HDEL", KEYS[1], ARGV[n])\n'
            '        redis.pcall("RPUSH", KEYS[tonumber(ARGV[n + 3])], ARGV[n + 4])\n'
        ),
        "tests/worker/keeping/test_redelivery.py::test_a_full_redis_loses_none",
    ),
    kept(
        "what another worker has restored is restored again",
        "it runs twice",
        "keeping/redis_redelivery",
        'ours and redis.call("HEXISTS", KEYS[1], ARGV[n]) == 1 then\n',
        "ours then\n",
        "tests/worker/keeping/test_redelivery.py::test_what_was_restored_meanwhile_is_not_copied",
    ),
    asking(
        "what was granted begins after the end",
        "its message went back to the broker: it runs twice",
        "keeping/session",
        ("            if not self._ended:\n                self._visit()\n"),
        "            self._visit()\n",
        "tests/worker/keeping/test_session.py::test_at_its_end_it_sleeps",
    ),
    asking(
        "a loop that hangs asks on",
        "permits are granted to a worker that begins nothing",
        "keeping/session",
        (
            "        while self._visiting and not self._ended:\n"
            "            self._event.wait(SLOWEST_S)\n"
        ),
        "",
        "tests/worker/keeping/test_session.py::test_a_loop_that_hangs_asks_no_more",
    ),
    asking(
        "a session that slept goes on",
        "all that it kept is in transit, and nothing is ever granted to it",
        "keeping/session",
        "lost = reply.slept or self._missed",
        "lost = self._missed",
        "tests/worker/keeping/test_session.py::test_a_session_that_slept_names_what_it_keeps",
    ),
    asking(
        "what left meanwhile begins",
        "with gevent the message before it waits for a greenlet, and this one was given back or has begun",
        "keeping/kept_messages",
        ("        if kept not in self._messages:\n            return\n"),
        "",
        "tests/worker/keeping/test_kept_messages.py::test_what_left_while_another_one_waited_for_a_greenlet_does_not_begin",
        "tests/worker/keeping/test_kept_messages.py::test_what_is_begun_early_begins_once",
    ),
    asking(
        "an answer of RabbitMQ comes for certain",
        "a frame that was cut in two is answered by nobody, and the worker never ends",
        "main_process/bootstep",
        "        socket.settimeout(longest)\n",
        "        pass\n",
        "tests/worker/main_process/test_granted.py::test_a_shutdown_waits_for_no_answer_for_ever",
    ),
    asking(
        "each answer of RabbitMQ may take its whole time",
        "a supervisor kills a worker that waits for several answers which do not come",
        "main_process/bootstep",
        "    if socket.gettimeout() != NONE_COMES_S:",
        "    if socket is not None:",
        "tests/worker/main_process/test_granted.py::test_the_second_answer_is_not_waited_for_once_the_first_did_not_come",
    ),
    hoarding(
        "the tag says whose message it is",
        "kombu gives a message that it restored the same one",
        "keeping/redis_redelivery",
        "if ours and ",
        "if ",
        f"{LOST}::test_a_message_is_known_by_its_time",
    ),
    hoarding(
        "what runs is given back",
        "it is not acknowledged",
        "keeping/lost_messages",
        "for tag, at in self._noted.copy().items() if tag not in self._running}",
        "for tag, at in self._noted.items()}",
        f"{LOST}::test_a_message_of_a_process[runs]",
    ),
    hoarding(
        "the next connection gives it back",
        "a worker that ends makes none",
        "main_process/bootstep",
        "        limiter.worker.lost.give_back_at_end(",
        "        (lambda *_: None)(",
        f"{LOST}::test_a_worker_that_ends_before_it_is_connected_again[warm-threads]",
    ),
    hoarding(
        "the end of a worker is its stop",
        "a cold shutdown is another one",
        "main_process/bootstep",
        "        self.stop(parent)\n",
        "        pass\n",
        f"{LOST}::test_a_worker_that_ends_before_it_is_connected_again[cold-prefork]",
    ),
    hoarding(
        "the step of the consumer says that it left",
        "without a connection Celery does not stop that step",
        "main_process/bootstep",
        "            _leave_queues(limiter)\n        limiter.worker",
        "            pass\n        limiter.worker",
        f"{LOST}::test_a_worker_that_ends_before_it_is_connected_again[warm-threads]",
    ),
    hoarding(
        "a worker that ends connects once more",
        "most workers have lost nothing",
        "keeping/lost_messages",
        "        if not self._left():\n            return\n",
        "",
        f"{LOST}::test_a_worker_that_lost_nothing_does_not_connect_again",
    ),
    hoarding(
        "a running task stays one",
        "Celery ends it because of the lost connection",
        "keeping/lost_messages",
        "self._running.items() if not _is_ended(each)",
        "self._running.items()",
        f"{LOST}::test_a_message_of_a_process[was ended by Celery]",
    ),
    hoarding(
        "what Celery has ended runs no more",
        "a process may go on for a while, and it would run beside itself",
        "keeping/lost_messages",
        "if tag not in self._running}",
        "if tag not in self._running or _is_ended(self._running[tag])}",
        f"{LOST}::test_a_message_of_a_process_of_a_worker_that_ends",
    ),
    hoarding(
        "a timeout is one for the whole",
        "each sentinel may take it several times",
        "keeping/lost_messages",
        "        thread.join(timeout)\n",
        "        thread.join()\n",
        f"{LOST}::test_the_end_waits_for_no_silent_server",
    ),
    hoarding(
        "kombu restores what is left when the process exits",
        "another worker may have it by then",
        "keeping/lost_messages",
        "        restore_nothing_at_exit(c.connection)  # by then another worker may have it, by the same tag\n",
        "",
        f"{LOST}::test_kombu_gives_nothing_back_at_the_exit",
    ),
)
