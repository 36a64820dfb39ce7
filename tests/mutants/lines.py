"""Wrong ideas about messages that are put in line without a process: they are lost, overtaken, or run user code."""

from __future__ import annotations

from .mutant import Group

lines = Group(
    "lines",
    "celery_semaphore/worker/main_process",
    tests=("tests/worker/main_process/test_line_asker.py",),
)

MUTANTS = (
    lines(
        "a process asks while the permit is still there",
        "the store takes it for another run of the same task",
        "line_asker",
        "            ended(holder, then=begin)\n",
        "            ended(holder)\n            begin()\n",
    ),
    lines(
        "a permit that came after all is kept",
        "nobody renews it, and the task asks as another holder",
        "line_asker",
        "            ended(holder, then=begin)\n",
        "            begin()\n",
    ),
    lines(
        "a lost answer was a refusal",
        "it may have been a permit, which idles until its lease ends",
        "line_asker",
        "            ended(holder)\n",
        "            pass\n",
    ),
    lines(
        "the ledger need not know who asks",
        "the release after a lost answer finds nothing to release",
        "line_asker",
        "            process.ledger.asked(new.call.holder, new.call.claims)\n",
        "            pass\n",
    ),
    lines(
        "a line is known although a permit came",
        "each message of the next second is asked for twice",
        "line_asker",
        "        self._lines.forget(new.call.claims)\n",
        "        pass\n",
    ),
    lines(
        "those that wait for a process stay where they are",
        "later messages overtake them",
        "line_asker",
        "            if before := self._wait_of(earlier):\n",
        "            if before := None:\n",
    ),
    lines(
        "those that wait for a process join, and a process gets them, too",
        "each asks twice",
        "line_asker",
        "                leaves(self._c, earlier)\n",
        "                pass\n",
    ),
    lines(
        "a message of a lost connection begins",
        "the broker delivers it again, and it runs twice",
        "line_asker",
        "        if not request.may_be_moved():\n            return\n",
        "",
    ),
    lines(
        "a task that was revoked meanwhile waits",
        "it is granted a permit that it does not want",
        "line_asker",
        "        request.revoked_in_line()\n",
        "",
    ),
    lines(
        "receivers need no request",
        "theirs is that of no task, or of another one",
        "line_asker",
        "    stack.push(Context(request.request_dict, args=request.args, kwargs=request.kwargs))\n",
        "    stack.push(Context())\n",
    ),
    lines(
        "an error in the loop takes the message with it",
        "it stays unacknowledged until the worker ends",
        "line_asker",
        "                new.request.deliver_elsewhere()\n",
        "                pass\n",
    ),
    lines(
        "all are asked for at once",
        "a thousand calls in one round trip delay those of others",
        "line_asker",
        "        while len(some) < CALLED:\n",
        "        while len(some) < 10 * CALLED:\n",
    ),
    lines(
        "a task that would be dropped asks like one that waits",
        "it has no place to ask for",
        "line_asker",
        "    if wait is None:\n        return None\n",
        "",
    ),
    lines(
        "a redelivery is a new wait",
        "its wait_timeout begins anew, or it may run already",
        "request",
        '        if FANOUT in sent or self.message.delivery_info.get("redelivered"):\n',
        "        if FANOUT in sent:\n",
    ),
    lines(
        "arguments are plain whatever brings them",
        "a key template calls code of the user's in the main process",
        "request",
        "        plain = self.content_type == JSON\n",
        "        plain = True\n",
    ),
    lines(
        "a misspelt option says nothing",
        "a task waits with the wrong key, and no error tells",
        "request",
        "            refuse_misspelt(sent)\n            return options",
        "            return options",
    ),
    lines(
        "a line lasts for ever",
        "each message after it is asked for twice",
        "known_lines",
        "        until = self._now() + min(delay, LONGEST_S)\n",
        "        until = self._now() + 3600\n",
    ),
    lines(
        "all resources of a refusal have a line",
        "messages of a free one are asked for twice",
        "known_lines",
        "            if claim.semaphore == semaphore:\n",
        "            if True:\n",
    ),
    lines(
        "each key is known",
        "a sender that invents keys fills the worker's memory",
        "known_lines",
        "        for resource in [*self._until][:-MOST]:\n",
        "        for resource in []:\n",
    ),
    lines(
        "a function of the user's may make the claims",
        "it runs in the worker's main process, which it may stop",
        "../../task/options",
        "        return self.claims(args, kwargs, key, weight) if constant or (plain and not calls) else None\n",
        "        return self.claims(args, kwargs, key, weight)\n",
    ),
)
