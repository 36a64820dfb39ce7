"""Wrong ideas about what a worker holds too much of, and about messages of lost connections."""

from __future__ import annotations

from .mutant import Group
from .worker import HERE

SURPLUS = f"{HERE}/keeping/test_surplus.py"
MESSAGES = f"{HERE}/keeping/test_kept_messages.py"
LOST = f"{HERE}/keeping/test_lost_messages.py"
LENGTHS = f"{HERE}/keeping/test_queue_lengths.py"

hoarding = Group("hoarding", "celery_semaphore/worker")

CROWDED = [
    hoarding(
        "a worker keeps what it keeps",
        "it will come to it",
        "keeping/kept_messages",
        "            self._surplus.leave_to_others(self._messages)  # M6\n",
        "            pass\n",
        f"{SURPLUS}::test_it_keeps_the_first_in_line",
    ),
    hoarding(
        "it keeps the last in line",
        "the first ones are most urgent, so they go to who has time",
        "keeping/surplus",
        "key=lambda kept: kept.rank)[most:]",
        "key=lambda kept: kept.rank)[:-most]",
        f"{SURPLUS}::test_it_keeps_the_first_in_line",
    ),
    hoarding(
        "a worker alone gives back, too",
        "it gets them again anyway",
        "keeping/surplus",
        "self._session.sessions > 1 and",
        "True and",
        f"{SURPLUS}::test_it_keeps_all",
    ),
    hoarding(
        "a moment without a free process is enough",
        "a process is free again at once",
        "keeping/surplus",
        "now - self._waits_since >= CROWDED_S",
        "True",
        f"{SURPLUS}::test_it_keeps_the_first_in_line",
    ),
    hoarding(
        "one task must wait for so long",
        "short ones that wait in turn let permits idle as well",
        "keeping/surplus",
        "have_waited(BEGINS_S)",
        "have_waited(CROWDED_S)",
        f"{SURPLUS}::test_short_tasks_that_wait_in_turn_count_together",
    ),
    hoarding(
        "two moments are one",
        "it was crowded then, and is now",
        "keeping/surplus",
        "            self._waits_since = inf\n",
        "            pass\n",
        f"{SURPLUS}::test_it_keeps_all",
    ),
    hoarding(
        "it gives back at each visit",
        "what the others do not take comes back, forty times in ten seconds",
        "keeping/surplus",
        "now - self._returned_at < PAUSE_S",
        "False",
        f"{SURPLUS}::test_it_does_so_once_a_second",
    ),
    hoarding(
        "the loop lowers the prefetch at its end of turn",
        "RabbitMQ has delivered all of it again by then",
        "keeping/surplus",
        "        self._prefetch.tell()\n",
        "",
        f"{SURPLUS}::test_it_keeps_the_first_in_line",
    ),
    hoarding(
        "thousands go back in one turn",
        "nothing else happens meanwhile",
        "keeping/surplus",
        "RETURNED_AT_ONCE = 200 ",
        "RETURNED_AT_ONCE = 10_000 ",
        f"{SURPLUS}::test_many_go_back_in_several_turns",
    ),
    hoarding(
        "what has left meanwhile goes back as well",
        "it was kept when the return began",
        "keeping/surplus",
        "surplus[-RETURNED_AT_ONCE:] if kept in messages])",
        "surplus[-RETURNED_AT_ONCE:]])",
        f"{SURPLUS}::test_many_go_back_in_several_turns[one begins]",
    ),
    hoarding(
        "it takes all of it again",
        "a process may be free soon",
        "keeping/prefetch",
        " or self._is_restrained():",
        ":",
        f"{SURPLUS}::test_no_more_are_received_for_a_lease_but_for_a_free_process",
    ),
    hoarding(
        "a free process receives nothing for a lease",
        "its worker keeps enough",
        "keeping/prefetch",
        "        return len(state.reserved_requests) >= pool_size(self._c.pool)\n",
        "        return True\n",
        f"{SURPLUS}::test_no_more_are_received_for_a_lease_but_for_a_free_process",
    ),
    hoarding(
        "what was one too many stays that",
        "it raised nothing when it came",
        "keeping/kept_messages",
        "            self._prefetch.raise_late(self._messages)\n",
        "",
        f"{SURPLUS}::test_a_worker_whose_processes_are_free_again_receives_on",
    ),
    hoarding(
        "all that expire are ended at once",
        "each ends without a process",
        "keeping/kept_messages",
        "            if begun == ENDED_AT_ONCE:",
        "            if False:",
        f"{MESSAGES}::test_many_that_end_at_once_leave_the_loop_to_others",
    ),
    hoarding(
        "a hundred that are revoked are all",
        "the others are found half a second later",
        "keeping/kept_messages",
        "        if self._revoked.unchecked:\n",
        "        if False:\n",
        f"{MESSAGES}::test_many_that_end_at_once_leave_the_loop_to_others",
    ),
]

LOSSES = [
    hoarding(
        "the broker delivers again what a lost connection had",
        "kombu restores it, if the server is there at that moment",
        "main_process/bootstep",
        "        worker.lost.give_back(c)\n",
        "",
        f"{LOST}::test_what_was_kept_goes_on[1-prefork]",
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
        "for tag, at in self._noted.items() if tag not in self._running}",
        "for tag, at in self._noted.items()}",
        f"{LOST}::test_a_message_of_a_process[runs]",
    ),
    hoarding(
        "what was refused later stays where it is",
        "it is delivered again, as ever",
        "keeping/lost_messages",
        " is not None and self._channel is not None:\n            self._give_back()",
        " is not None and self._channel is not None:\n            pass",
        f"{LOST}::test_a_message_of_a_process[is refused]",
    ),
    hoarding(
        "what Celery has ended still runs",
        "it was running when the connection was lost",
        "keeping/lost_messages",
        "not _is_ended(each)",
        "True",
        f"{LOST}::test_a_message_of_a_process[was ended by Celery]",
    ),
    hoarding(
        "it goes back as it was delivered",
        "the line is in the store",
        "keeping/lost_messages",
        "next(ordered) if message.delivery_tag in tags else message",
        "message",
        f"{LOST}::test_a_message_of_a_process[runs]",
    ),
    hoarding(
        "what waits for a thread was dropped",
        "as what waits for a process",
        "keeping/lost_messages",
        "state.active_requests if c.pool.uses_semaphore else state.reserved_requests",
        "state.active_requests",
        f"{LOST}::test_what_was_prefetched_goes_on[call-threads]",
    ),
]

FULL = [
    hoarding(
        "a queue with a length is as any other",
        "RabbitMQ puts each message back where it was: to the oldest, which it drops",
        "keeping/redelivery",
        "            if self._lengths.queues and kept",
        "            if False and kept",
        f"{LENGTHS}::test_a_shutdown_drops_none_that_the_worker_had_accepted[warm]",
    ),
    hoarding(
        "it is kept beside the prefetch",
        "what was prefetched may be kept, too, and goes back with it",
        "keeping/prefetch",
        " - self._c.max_prefetch_count",
        "",
        f"{LENGTHS}::test_the_prefetch_is_raised_up_to_the_length",
    ),
    hoarding(
        "any length drops",
        "a full queue drops",
        "keeping/prefetch",
        '    return bounded and arguments.get("x-overflow", DROPS_OLDEST) == DROPS_OLDEST\n',
        "    return bounded\n",
        f"{LENGTHS}::test_lengths",
    ),
]

MUTANTS = (*CROWDED, *LOSSES, *FULL)
