"""Wrong ideas about what operators see and do, and about tests without a server."""

from __future__ import annotations

from .mutant import Mutant

INSPECTOR = "tests/ops/test_inspector.py"
CLI = "tests/ops/test_cli.py"
PLUGIN = "tests/testing/test_plugin.py"


def operating(name: str, why: str, file: str, text: str, instead: str, *tests: str) -> Mutant:
    file = f"celery_semaphore/{file}.py"
    return Mutant(f"operating/{name}", why, file, text, instead, tests)


MUTANTS = [
    operating(
        "a grant is released like a permit",
        "both are held",
        "ops/inspector",
        "        if permit.granted:\n",
        "        if False:\n",
        f"{INSPECTOR}::test_a_grant_is_shown_with_its_task",
    ),
    operating(
        "resume clears whatever is set",
        "a pause is a limit that is set",
        "ops/inspector",
        "        if not self.is_paused(resource):\n",
        "        if False:\n",
        f"{INSPECTOR}::test_limits",
    ),
    operating(
        "the first of several permits is released",
        "a task has one",
        "ops/inspector",
        "        if len(mine) != 1:\n",
        "        if not mine:\n",
        f"{INSPECTOR}::test_release",
    ),
    operating(
        "a name that nobody uses means what is shown",
        "what is shown is the key",
        "ops/directory",
        "    if not meant:\n",
        "    if not meant:\n        return named\n    if False:\n",
        f"{INSPECTOR}::test_a_long_key_may_be_given_as_it_is_shown",
    ),
    operating(
        "what is limited and not used is not listed",
        "a pause is seen by those who wait",
        "ops/directory",
        ", self._store.limits())",
        ")",
        f"{INSPECTOR}::test_semaphores_are_summed_up",
    ),
    operating(
        "the limit of one key is that of its semaphore",
        "it is what is in force",
        "ops/views",
        "        if all(each.resource in of_keys for each in seen):\n",
        "        if not in_force:\n",
        f"{INSPECTOR}::test_the_limit_of_one_key_is_not_that_of_all",
    ),
    operating(
        "who does not wait is asked about",
        "the inspector says it in any case",
        "ops/cli",
        "        waiting = inspector.tasks(task_ids, resource)\n",
        "        waiting = task_ids\n",
        f"{CLI}::test_waiting_tasks_are_dropped",
    ),
    operating(
        "a task runs wherever it is known",
        "a worker knows what it runs",
        "ops/control",
        " if at.active is active}",
        "}",
        f"{INSPECTOR}::test_workers_name_tasks",
    ),
    operating(
        "a drop that nobody heard is done",
        "a broadcast reaches everybody",
        "ops/inspector",
        "        if not self._revoke(task_ids):\n",
        "        self._revoke(task_ids)\n        if False:\n",
        f"{INSPECTOR}::test_dropping_is_revoking",
    ),
    operating(
        "a key speaks to the terminal",
        "keys are names",
        "ops/tables",
        "return text if text.isprintable() and text else ascii(text)",
        "return text or ascii(text)",
        f"{INSPECTOR}::test_a_key_cannot_speak_to_a_terminal",
    ),
    operating(
        "only what the app module imports is declared",
        "the app is loaded",
        "ops/terminal",
        "    app.loader.import_default_modules()  # the tasks, which declare limits\n",
        "",
        f"{CLI}::test_also_what_a_worker_would_import",
    ),
    operating(
        "limits stay switched off",
        "the test is over",
        "testing/local",
        "        store.unlimited = before\n",
        "        pass\n",
        f"{PLUGIN}::test_eager_tasks_need_no_server",
    ),
    operating(
        "an app keeps the store of its last test",
        "the next test brings its own",
        "testing/local",
        "        del app.__dict__[LIMITER]\n",
        "",
        f"{PLUGIN}::test_eager_tasks_need_no_server",
    ),
    operating(
        "each semaphore is kept in the test's store",
        "a test has one store",
        "semaphore",
        "if instead and self._has_url else",
        "if instead else",
        f"{PLUGIN}::test_semaphores_of_scripts_need_no_server_either",
    ),
    operating(
        "a task waits with any worker that knows it",
        "its worker knows it",
        "ops/control",
        " if w.where is Where.HELD else None",
        "",
        f"{INSPECTOR}::test_where_each_one_waits",
    ),
    operating(
        "a requeued task is held",
        "it is how requeued tasks wait",
        "ops/views",
        "_REACHABLE[ticket.kind] if ticket.reachable else Where.IN_TRANSIT",
        "_REACHABLE[ticket.kind]",
        f"{INSPECTOR}::test_where_each_one_waits",
    ),
    operating(
        "the turn of a task in transit is known",
        "it has a place",
        "ops/views",
        "    if ticket.reachable:\n",
        "    if True:\n",
        f"{INSPECTOR}::test_where_each_one_waits",
    ),
    operating(
        "a task that a session held comes back when it was to ask again",
        "it has a time",
        "ops/views",
        "is_delayed = not ticket.session and ",
        "is_delayed = ",
        f"{INSPECTOR}::test_where_each_one_waits",
    ),
    operating(
        "all that a worker holds is shown",
        "the operator wants to see it",
        "worker/inspection",
        "zip(held[:shown], turns",
        "zip(held, turns",
        f"{CLI}::test_what_a_worker_has",
    ),
    operating(
        "a paused task is expected soon",
        "it is when its worker asks next",
        "core/forecast",
        "turn if known else None",
        "turn",
        f"{CLI}::test_what_a_worker_has",
    ),
    operating(
        "who is behind a paused task is expected as ever",
        "the store did not say otherwise",
        "worker/inspection",
        "yield None if resources in still else turn",
        "yield turn",
        "tests/worker/test_inspection.py",
    ),
    operating(
        "a line that stands still stops all",
        "one of its semaphores is paused",
        "worker/inspection",
        "yield None if resources in still else turn",
        "yield None if still else turn",
        "tests/worker/test_inspection.py",
    ),
    operating(
        "who waits in a pause is told for how long",
        "its worker tries again then",
        "worker/refusal",
        "        unknown = refusal.reason in (Reason.PAUSED, Reason.UNSATISFIABLE)\n",
        "        unknown = False\n",
        f"{CLI}::test_limits_are_set_and_cleared",
    ),
    operating(
        "a key with a limit of its own is paused, too, it seems",
        "the whole semaphore is",
        "ops/tables",
        'return f"{text}\\n{others}" if',
        "return text if",
        f"{CLI}::test_a_key_with_a_limit_of_its_own_is_named",
    ),
    operating(
        "a worker shows what asked for a permit",
        "it is in the ledger",
        "worker/ledger",
        " if each.permit]",
        "]",
        "tests/worker/test_ledger.py",
    ),
]
