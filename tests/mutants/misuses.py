"""Wrong ideas about what a new user writes, and about answers that mislead."""

from __future__ import annotations

from .mutant import Group

MISUSES = "tests/test_misuses.py"
CALLS = "tests/task/test_call_options.py"
SATURATION = "tests/core/test_saturation.py"
WATCH = "tests/worker/messages/test_saturation_watch.py"
INSPECTOR = "tests/ops/test_inspector.py"

misuse = Group("misuses", "celery_semaphore")

MUTANTS = [
    misuse(
        "a task of another class declares no semaphore",
        "its options are not ours",
        "task/unlimited",
        "    return isinstance(declared, str)\n",
        "    return False\n",
        f"{MISUSES}::test_a_task_that_only_seems_limited",
    ),
    misuse(
        "whatever another library calls a semaphore is ours",
        "it has the name of our option",
        "task/unlimited",
        "    return isinstance(declared, str)\n",
        "    return declared is not None\n",
        f"{MISUSES}::test_tasks_of_other_libraries_are_let_pass",
    ),
    misuse(
        "a worker without a limited task has nothing to check",
        "it gets no bootstep",
        "task/steps",
        "        add_steps(sender.app)\n",
        "        pass\n",
        f"{MISUSES}::test_no_worker_starts_with_it",
    ),
    misuse(
        "a mixin works at any place",
        "its methods are inherited",
        "task/limited_task",
        "        _refuse_late_mixin(cls)\n",
        "",
        f"{MISUSES}::test_a_task_that_only_seems_limited",
    ),
    misuse(
        "a setting in the wrong place is always a mistake",
        "it has our name",
        "core/settings_names",
        "        is_needed = not is_read and conf.get(name) is None\n",
        "        is_needed = not is_read\n",
        f"{MISUSES}::test_a_setting_of_something_else",
    ),
    misuse(
        "a misspelt setting of the project is ours",
        "it looks like one",
        "core/settings_names",
        "    if space and not is_spaced and not is_read:\n",
        "    if False:\n",
        f"{MISUSES}::test_a_setting_of_something_else",
    ),
    misuse(
        "only a prefork pool has several processes",
        "memory is that of the worker",
        "worker/main_process/processes",
        "    if others := _other_workers(worker.app):\n",
        "    if others := []:\n",
        f"{MISUSES}::test_no_worker_beside_another_one_keeps_permits_in_memory",
    ),
    misuse(
        "any text with a brace is a template",
        "fields have braces",
        "core/key_template",
        '    return any(re.match(r"[^\\W\\d]\\w*([.[]|$)", field) for field in fields)\n',
        "    return bool(fields)\n",
        f"{MISUSES}::test_a_text_with_braces_may_be_a_key",
    ),
    misuse(
        "each header that begins like ours is misspelt",
        "no other has this beginning",
        "task/call_options",
        '    if meant and nearest(suffix, ("key", "weight"), alike=SUFFIX_ALIKE):\n',
        "    if meant := KEY:\n",
        f"{CALLS}::test_what_workers_write_is_none_of_them",
    ),
    misuse(
        "a delay of the store is an estimate",
        "it comes from its figures",
        "core/saturation",
        "        if isclose(refusal.retry_after, guess, rel_tol=ALIKE):\n",
        "        if False:\n",
        f"{SATURATION}::test_an_estimate_needs_a_permit_that_was_released",
    ),
    misuse(
        "a semaphore stays saturated for ever",
        "it was once",
        "worker/messages/saturation_watch",
        "if each.waiting]\n",
        "]\n",
        f"{WATCH}::test_nothing_once_no_task_waits",
    ),
    misuse(
        "a name is found although nothing has it",
        "it may be used later",
        "ops/inspector",
        "        if not create:\n",
        "        if False:\n",
        f"{INSPECTOR}::test_a_name_that_is_not_known_is_found_only_to_be_made",
    ),
    misuse(
        "a callable is right or wrong when it is called",
        "who knows its arguments",
        "core/limit",
        "    if wanted.parameters and not may_fit(wanted, task):\n",
        "    if False:\n",
        f"{MISUSES}::test_a_wrong_option",
    ),
    misuse(
        "a callable must take what the task takes",
        "it gets its arguments",
        "core/call",
        "            and (each.default is kinds.empty or each.name in function.parameters)\n",
        "",
        f"{MISUSES}::test_a_callable_that_some_call_fits",
    ),
]
