"""Wrong ideas about messages that came by a granted queue: how they find a process, and how they end without one."""

from __future__ import annotations

from .mutant import Group

HERE = "tests/worker/messages"
ARGUMENTS = "tests/worker/main_process/test_granted_arguments.py"
ELSEWHERE = f"{HERE}/test_granted_elsewhere.py"
ENDS = f"{HERE}/test_granted_ends.py"
HOME = f"{HERE}/test_granted_home.py"
HEADERS = f"{HERE}/test_headers.py"
IDLES = f"{ELSEWHERE}::test_no_permit_idles_beside_a_free_process"

granted = Group("granted", "celery_semaphore/worker")
core = Group("granted", "celery_semaphore/core")

ON_TO_OTHERS = [
    granted(
        "a granted message stays where it came",
        "a process will be free before long",
        "main_process/unstarted_messages",
        "            self._find_others()\n",
        "            pass\n",
        f"{IDLES}[limit 1-site]",
    ),
    granted(
        "a busy worker goes on to receive",
        "it gave back all that it had",
        "main_process/unstarted_messages",
        "        self._pause()\n        consumed",
        "        consumed",
        f"{IDLES}",
    ),
    granted(
        "a BRPOP is sent while one waits",
        "the gate is closed when it goes back; but Redis gives it to the one that asked before",
        "main_process/unstarted_messages",
        "not (self._paused or self._waiting())",
        "not self._paused",
        f"{IDLES}",
    ),
    granted(
        "an answer to a BRPOP is not read while the gate is closed",
        "its message is in no list, and in no worker",
        "main_process/unstarted_messages",
        "            unanswered_connection(channel) or (self._receives() and can_consume())\n",
        "            self._receives() and can_consume()\n",
        f"{HERE}/test_parking_queues.py::test_no_granted_message_waits_behind_a_busy_process",
    ),
    granted(
        "a worker that believes to be alone does not ask",
        "it asks three times in a lease; for so long the permit idles",
        "main_process/unstarted_messages",
        "                session.hurry()\n",
        "                pass\n",
        f"{ELSEWHERE}::test_a_lone_worker_keeps_what_it_will_begin",
    ),
    granted(
        "a lone worker gives back what it will begin",
        "another one may come",
        "main_process/unstarted_messages",
        "        if session is not None and session.sessions == 1:\n",
        "        if session is None:\n",
        f"{ELSEWHERE}::test_a_lone_worker_keeps_what_it_will_begin",
    ),
    granted(
        "a returned message stays in the line",
        "its process finds out; but two workers run it",
        "main_process/unstarted_messages",
        "            leaves(self._c, request)\n            state.task_ready(request)\n",
        "            state.task_ready(request)\n",
        f"{ELSEWHERE}::test_all_workers_are_busy",
    ),
    granted(
        "a quorum queue takes returns",
        "it does, and drops the message after some",
        "main_process/unstarted_messages",
        '            arguments.get("x-queue-type") == "quorum"\n',
        "            False\n",
        f"{ELSEWHERE}::test_a_quorum_queue_delivers_none_too_often",
    ),
    granted(
        "a message without its grant is not in the line",
        "its permit is another task's; but it must run, too",
        "main_process/unstarted_messages",
        "        if not self._ended:\n            goes_first",
        "        if False:\n            goes_first",
        f"{ELSEWHERE}::test_a_quorum_queue_delivers_none_too_often",
    ),
    granted(
        "at a shutdown they go back with the channel",
        "that is closed when the running tasks have ended, which may take hours",
        "main_process/granted",
        "            self._unstarted.give_back_all()\n",
        "            self._unstarted.forget()\n",
        f"{ELSEWHERE}::test_goes_to_another_worker_at_a_shutdown",
    ),
]

WITHOUT_A_RUN = [
    granted(
        "a revoked one keeps its grant",
        "it ends by itself",
        "main_process/request",
        "        if ended:\n            self.end_grant()\n",
        "",
        f"{ENDS}::test_three_revoked_by_stamps",
    ),
    granted(
        "a process finds out that it was revoked",
        "as it would of any other; but its permit idles until then",
        "main_process/unstarted_messages",
        "            if request.revoked_in_line():  # G3\n",
        "            if False:\n",
        f"{ENDS}::test_revoked_while_it_waits_for_a_process",
    ),
    granted(
        "one that was kept is revoked when a process has it",
        "as it would of any other; but its permit idles until then",
        "keeping/kept_messages",
        "        self.session.unstarted.end_revoked()\n",
        "",
        f"{ENDS}::test_a_kept_one_is_revoked_while_it_waits_for_a_process",
    ),
    granted(
        "the header names no resources",
        "the worker that takes it up knows its claims; one that discards it does not",
        "messages/bring_back",
        "        granted = grant.claims if keeps else ()\n",
        "        granted = ()\n",
        f"{ENDS}::test_three_revoked_by_stamps",
    ),
    granted(
        "an unregistered task keeps its grant",
        "it was no request",
        "main_process/bootstep",
        "        watch_discards(c, limiter)\n",
        "",
        f"{ENDS}::test_discarded_before_there_is_a_request",
    ),
    granted(
        "a sender may name any resource",
        "a store does not accept arbitrary text",
        "messages/ticket_header",
        "name and is_resource_name(name) for name in resources",
        "True for name in resources",
        f"{HEADERS}::test_what_no_worker_wrote",
    ),
]

HOME_AGAIN = [
    granted(
        "it goes back to the queue that it came from",
        "as Celery does it; but by its granted queue it comes before all others for ever",
        "main_process/request",
        '            self.by_granted_queue = came_by["routing_key"] != queue\n',
        "",
        f"{HOME}::test_goes_home",
    ),
    granted(
        "it is acknowledged when it is rejected",
        "it will be published at once; but the broker may be away",
        "main_process/request",
        "        self._rejected = True\n        self._goes_home",
        "        super().acknowledge()\n        self._rejected = True\n        self._goes_home",
        f"{HOME}::test_is_acknowledged_when_the_broker_has_the_new_one",
    ),
    granted(
        "it is published while its process may hold the permit",
        "the sooner the better; but the new one is refused, since the old one may run",
        "permits/ledger",
        "        give_back = partial(self._give_back, holder, message_id, then)\n",
        "        self._releaser.after(holder, then or (lambda: None))\n"
        "        give_back = partial(self._give_back, holder, message_id, None)\n",
        f"{HOME}::test_waits_for_its_process_to_be_gone",
    ),
    granted(
        "an end that is told twice is over",
        "the first one released the permit; but only the second one has rejected the message",
        "permits/ledger",
        "            self._releaser.when(lambda: gone() or not self.has(holder), give_back)\n",
        "            if self.has(holder):\n                self._releaser.when(gone, give_back)\n",
        f"{HOME}::test_goes_home_once_though_its_end_is_told_twice",
    ),
    granted(
        "a rejected one keeps its grant",
        "it takes it up when it is delivered again; but there it may wait for long",
        "main_process/request",
        "        if (grant := self.grant) is not None:  # it would",
        "        if (grant := None) is not None:  # it would",
        f"{ENDS}::test_its_process_dies_before_it_has_the_permit",
        f"{HOME}::test_gives_its_grant_back_if_it_had_no_permit",
    ),
    core(
        "what follows a release follows the attempt",
        "the releaser works off its queue in order; but what failed goes to its end",
        "releaser",
        "            if release.holder == holder:\n",
        "            if False:\n",
        f"{HOME}::test_comes_after_a_release_that_fails_at_first",
        f"{HOME}::test_stays_while_its_permit_cannot_be_released",
    ),
    core(
        "nothing follows a release that is given up",
        "it did not succeed; but the lease has ended",
        "releaser",
        "        return overdue\n",
        "        return []\n",
        f"{HOME}::test_comes_after_a_release_that_is_given_up",
    ),
    granted(
        "one that cannot be published is rejected once more",
        "so it goes home again, and never back to the broker",
        "main_process/request",
        "            super().reject(requeue=True)\n        else:",
        "            self.reject(requeue=True)\n        else:",
        f"{HOME}::test_is_returned_if_it_cannot_be_published",
    ),
    granted(
        "a task that had its permit keeps its ticket",
        "it is the same task; but it would stand before those that wait",
        "main_process/request",
        "        self.granted, self.grant = False, None\n",
        "        self.granted = False\n",
        f"{HOME}::test_is_acknowledged_when_the_broker_has_the_new_one",
    ),
]

DECLARED = [
    granted(
        "dead letters go by the key of their message",
        "as RabbitMQ does it; but that is the name of the granted queue",
        "messages/granted_queue",
        "        arguments.setdefault(DEAD_LETTER_KEY, _key_of(home))\n",
        "        pass\n",
        f"{ARGUMENTS}::test_dead_letters_arrive[direct-work-celery-park]",
    ),
    granted(
        "dead letters go by the key that the queue is bound by",
        "its messages come by that; but Celery sends past a direct exchange",
        "messages/granted_queue",
        "    return str(home.name if direct else home.routing_key or home.name)\n",
        "    return str(home.routing_key)\n",
        f"{ARGUMENTS}::test_dead_letters_arrive[direct-work-celery-park]",
    ),
    granted(
        "dead letters go by the name of the queue",
        "a message that was published again does; but not one that came by a topic",
        "messages/granted_queue",
        "    return str(home.name if direct else home.routing_key or home.name)\n",
        "    return str(home.name)\n",
        f"{ARGUMENTS}::test_dead_letters_arrive[topic-work.*-work.*-park]",
    ),
    granted(
        "a granted queue is as long as its queue",
        "the user bounds it; but each of its messages is the only one, and has a permit",
        "messages/granted_queue",
        '    "x-max-length",\n',
        "",
        f"{ARGUMENTS}::test_a_bounded_queue_drops_no_granted_task",
    ),
    granted(
        "RabbitMQ refuses for want of a right",
        "it mostly does; but no right lets two sets of arguments be one",
        "main_process/granted_rights",
        '    if getattr(error, "code", None) != PRECONDITION_FAILED:\n',
        "    if error:\n",
        f"{ARGUMENTS}::test_the_arguments_of_its_queue_were_changed",
    ),
    granted(
        "a granted task pays for its rate",
        "it is a start like any other; but its permit idles, and its first attempt has paid",
        "main_process/granted",
        '        paces_by(c, lambda request: getattr(request, "by_granted_queue", False))\n',
        "",
        f"{ELSEWHERE}::test_a_rate_limit_is_paid_once[site-prefork]",
    ),
    granted(
        "no task pays for its rate",
        "it waits for its permit anyway",
        "celery_internals",
        "        if paid(request):\n",
        "        if request:\n",
        f"{ELSEWHERE}::test_a_rate_limit_is_paid_once[site-prefork]",
    ),
]

MUTANTS = (*ON_TO_OTHERS, *WITHOUT_A_RUN, *HOME_AGAIN, *DECLARED)
