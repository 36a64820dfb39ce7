"""Wrong ideas about granted messages that no process of their worker is free for."""

from __future__ import annotations

from .asking import asking
from .worker import HERE

BUSY = f"{HERE}/holding/test_busy_pool.py"
TURNS = f"{HERE}/holding/test_turns.py"
SENT_ON = f"{TURNS}::test_what_finds_no_process_is_sent_on_to_a_worker_with_a_free_one"

MUTANTS = [
    asking(
        "what waits for a process is not watched",
        "the next process takes it, and each task ends at some time",
        "worker/holding/held_messages",
        "            if goes_first(self._c, hand_over):\n                self._busy_pool.watch(held.wait, request)\n",
        "            goes_first(self._c, hand_over)\n",
        SENT_ON,
    ),
    asking(
        "it is sent on at once",
        "there is no free process",
        "worker/holding/busy_pool",
        "call_after(SENT_ON_AFTER_S, self",
        "call_after(0.0, self",
        f"{BUSY}::test_what_no_process_takes_is_sent_on",
    ),
    asking(
        "it is sent on, and waits here, too",
        "whoever has a process first runs it",
        "worker/holding/busy_pool",
        "        elif take_out(self._c, request):\n",
        "        elif True:\n",
        f"{BUSY}::test_what_a_process_takes_in_time_is_not_sent_on",
    ),
    asking(
        "it stays in the line of the pool",
        "a request whose message is acknowledged does nothing",
        "worker/holding/pool_line",
        "            waiting.remove(entry)\n",
        "",
        f"{BUSY}::test_what_no_process_takes_is_sent_on",
    ),
    asking(
        "its request is never ready",
        "Celery counts it as reserved for ever",
        "worker/holding/busy_pool",
        "            state.task_ready(request)\n",
        "",
        f"{BUSY}::test_what_no_process_takes_is_sent_on",
    ),
    asking(
        "its grant ends with its request",
        "it is on its way, and finds no permit when it arrives",
        "worker/holding/busy_pool",
        "            unstarted.sent_on(wait)\n",
        "",
        f"{BUSY}::test_its_grant_lasts_while_it_is_on_its_way",
    ),
    asking(
        "its grant lasts until it arrives",
        "all workers are busy, or the broker lost it: the permit is never free",
        "worker/holding/unstarted",
        "        return since < time.monotonic() - GRANT_S\n",
        "        return False\n",
        f"{BUSY}::test_its_grant_lasts_while_it_is_on_its_way",
    ),
    asking(
        "its worker sleeps because of it",
        "it has waited for so long",
        "worker/holding/unstarted",
        "since < long_ago and request is not None and request.time_start is None",
        "since < long_ago and getattr(request, 'time_start', None) is None",
        "-k",
        "is_on_its_way or sleeps_while_no_process",
        BUSY,
        f"{HERE}/holding/test_session.py",
    ),
    asking(
        "all that wait are sent on",
        "each could find a process elsewhere: a busy cluster moves its lines into the granted queue",
        "worker/holding/busy_pool",
        "        if unstarted.is_any_sent_on():\n",
        "        if False:\n",
        f"{BUSY}::test_one_at_a_time_is_sent_on",
    ),
    asking(
        "what had to wait is forgotten",
        "another one was sent on",
        "worker/holding/busy_pool",
        "            self.watch(wait, request)\n",
        "            return\n",
        f"{BUSY}::test_one_at_a_time_is_sent_on",
    ),
    asking(
        "a worker that is alone sends on",
        "its message comes back, after a publication and a delivery",
        "worker/holding/busy_pool",
        "self._session.sessions > 1 and ",
        "",
        f"{BUSY}::test_without_another_worker_it_waits_for_the_next_process",
    ),
    asking(
        "it is sent on without a granted queue",
        "it stands behind its queue's backlog, and its grant ends",
        "worker/holding/busy_pool",
        " and request.may_be_sent_on()",
        "",
        f"{BUSY}::test_without_a_granted_queue_it_waits_for_the_next_process",
    ),
    asking(
        "a message of a lost connection is sent on",
        "the broker delivers it again",
        "worker/holding/busy_pool",
        "        if not request.may_be_moved():\n            return  # its connection is lost: the broker delivers the message again\n",
        "",
        f"{BUSY}::test_what_a_lost_connection_delivered_is_not_sent_on",
    ),
    asking(
        "it goes behind the backlog of its queue",
        "it came from there",
        "worker/messages/send_on",
        "self.request.comes_back_to()",
        "self.request.came_from()",
        f"{HERE}/messages/test_waiting.py::test_what_is_sent_on_goes_past_the_backlog_of_its_queue",
    ),
]
