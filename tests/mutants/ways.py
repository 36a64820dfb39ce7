"""Wrong ideas about the ways of a task's message: by which headers, brokers and queues it comes and goes."""

from __future__ import annotations

from .worker import HERE, worker

FORGED = f"{HERE}/test_forged.py"
REPLACED = f"{HERE}/test_replaced.py"

HEADERS = [
    worker(
        "a replacement is the task that it replaces",
        "it has its id, so it is another message of it: delivered again, it is taken for a copy",
        "worker/headers",
        "{retries}:{replaced}",
        "{retries}",
        f"{REPLACED}::test_a_replacement_that_is_delivered_again_runs[site]",
    ),
    worker(
        "a task is replaced once",
        "it is a replacement or it is none; but a replacement replaces itself by the next page",
        "worker/headers",
        'replaced = sent.get("retries") or 0, sent.get("replaced_task_nesting") or 0',
        'replaced = sent.get("retries") or 0, bool(sent.get("replaced_task_nesting"))',
        f"{REPLACED}::test_each_retry_and_each_replacement_is_another_wait",
    ),
    worker(
        "a retry is the task that it repeats",
        "it has its id too",
        "worker/headers",
        "{retries}:{replaced}",
        "{replaced}",
        f"{REPLACED}::test_each_retry_and_each_replacement_is_another_wait",
    ),
    worker(
        "headers are the sender's business",
        "they become attributes of the request, and one of them says that it has a permit",
        "worker/request",
        "        drop_internal(sent)",
        "        pass",
        FORGED,
    ),
    worker(
        "a permit is whatever has its name",
        "the main process has dropped what a message brought; but not with a Request class of another",
        "worker/permit",
        "    return permit if isinstance(permit, TaskPermit) else None\n",
        "    return permit\n",
        FORGED,
    ),
    worker(
        "what is to be released is whatever has its name",
        "a task without a limit drops nothing from its headers, and releases the permit of another",
        "worker/local",
        "    if not isinstance(pending, PendingRelease):",
        "    if pending is not None and not isinstance(pending, PendingRelease):\n"
        "        pending = PendingRelease(*pending)\n"
        "    if pending is None:",
        FORGED,
    ),
]

MUTANTS = (*HEADERS,)
