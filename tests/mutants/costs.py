"""Wrong ideas about what a limited task need not spend."""

from __future__ import annotations

from .mutant import Group

worker = Group("costs", "celery_semaphore", ".py", ("tests/worker/permits",))

CALLS = "tests/task/test_call_options.py"

MUTANTS = [
    worker(
        "each delivery compares its headers anew",
        "difflib is fast",
        "task/call_options",
        "@lru_cache(maxsize=256)\n",
        "",
        f"{CALLS}::test_a_header_is_compared_once",
    ),
    worker(
        "a name of any length is compared and kept",
        "names of headers are short",
        "task/call_options",
        " or len(name) > LONGEST_MISSPELT:\n",
        ":\n",
        f"{CALLS}::test_a_long_name_is_not_compared_nor_kept",
    ),
    worker(
        "the names of all headers are compared",
        "only ours are like an option",
        "task/call_options",
        "        if not name.startswith(BEGINS) or name in OPTIONS",
        "        if name in OPTIONS",
        f"{CALLS}::test_names_of_others_take_no_place_among_those_that_were_compared",
    ),
    worker(
        "nobody is told that a permit was noted",
        "the releaser reads the notes twice a second, and that is soon enough for an early ack",
        "worker/pool_process/gate",
        "        limiter.waker.wake()  # its message is to be acknowledged now\n",
        "        pass\n",
        "tests/worker/permits/test_loop_waker.py::test_an_early_ack_is_sent_while_the_task_runs",
    ),
]
