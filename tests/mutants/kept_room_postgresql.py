"""Wrong ideas about the room that waits keep (H12), in the functions of PostgreSQL."""

from __future__ import annotations

from .mutant import Group

ROWS = "tests/stores/test_conformance.py::TestEmbeddedPostgresStore"
HERE = ("tests/stores/postgresql/test_kept_room.py", "-k", "embedded")

kept = Group("kept room on postgresql", "celery_semaphore/stores/postgresql/v1", ".sql", tests=HERE)


def rows(noticed_by: str) -> tuple[str, ...]:
    return (ROWS, "-k", noticed_by)


MUTANTS = (
    kept(
        "a new task sees what is free on the short way",
        "permits and grants are all that is in use",
        "acquire",
        "        AND r.kept IS NULL -- C4\n",
        "",
    ),
    kept(
        "a release passes its permit on, whatever is kept",
        "the resource was full before",
        "pass_on",
        "    AND at.kept IS NULL -- C4\n",
        "",
    ),
    kept(
        "a line does not wait for kept room",
        "what is free is free",
        "permits",
        "_at.occupied + celery_semaphore.v1_kept_before(_at.kept, _before) + _weight",
        "_at.occupied + _weight",
        tests=rows("a_line_waits_for_kept_room"),
    ),
    kept(
        "kept room is kept from all",
        "the oldest wait waits for it, too",
        "kept_room",
        "    AND (room.urgency, room.place, room.nonce) < (_ticket.urgency, _ticket.place, _ticket.nonce)\n",
        "",
        tests=rows("earlier_task_takes_it or more_urgent_task_takes_it"),
    ),
    kept(
        "thousands of waits keep room",
        "there is room for them",
        "kept_room",
        "            AND (SELECT count(*) FROM celery_semaphore.v1_room_before(at.kept, ticket)) < 100\n",
        "",
        tests=rows("a_hundred_keep_room"),
    ),
    kept(
        "one wait keeps room at a resource",
        "the next one writes its own",
        "kept_room",
        "kept = celery_semaphore.v1_room_of_others(r.kept, _room.nonce) || excluded.kept",
        "kept = excluded.kept",
    ),
    kept(
        "a line is counted to its end",
        "its turn is needed as it is",
        "kept_room",
        "coalesce(most, 10000)",
        "10000",
    ),
    kept(
        "a line is counted as far as the time here allows",
        "one more tells that it is too long",
        "kept_room",
        "floor(_at_most * in_force / mean) + 2",
        "floor(_at_most * in_force / mean) - _weight",
    ),
    kept(
        "kept room lasts as long as the turn takes",
        "the clock may step back, and a mean be long",
        "kept_room",
        "                least(_m.now + 1000000 + 2 * floor(turn), celery_semaphore.v1_latest_end(_m.now, _m.slowest,"
        " _m.take_up))\n",
        "                _m.now + 1000000 + 2 * floor(turn)\n",
        tests=rows("no_longer_than_a_lease_may"),
    ),
    kept(
        "its own end is far enough",
        "after a clock that stepped back it would be idle for the length of the step",
        "kept_room",
        " AND room.ends <= celery_semaphore.v1_latest_end(_m.now, _m.slowest, _m.take_up)\n",
        "\n",
        tests=rows("a_clock_that_steps_back_ends_it"),
    ),
    kept(
        "kept room is not due at its end",
        "a release hands it on",
        "kept_room",
        "SET reap_at = least(r.reap_at, excluded.reap_at),\n        kept =",
        "SET\n        kept =",
    ),
    kept(
        "a look forgets when kept room ends",
        "permits and waits end",
        "reap",
        "        (SELECT min(room.ends) FROM unnest(at.kept) AS room), -- H12\n",
        "",
        tests=rows("its_time_ends"),
    ),
    kept(
        "a resource without permits and waits is idle",
        "a wait at another one keeps room there",
        "reap",
        " AND at.kept IS NULL THEN",
        " THEN",
    ),
    kept(
        "what is over stays",
        "the next one writes its own",
        "resource",
        "        at.kept := celery_semaphore.v1_delete_room_over(at, _m);\n",
        "        NULL;\n",
    ),
    kept(
        "its own acquire is a sign that the wait goes on",
        "it may be admitted, or wait for a new reason",
        "acquire_slow_path",
        "        IF _ats[n].kept IS NOT NULL AND",
        "        IF false AND",
        tests=rows("its_own_acquire_ends_it"),
    ),
    kept(
        "what it keeps no more is tried with the next release",
        "there may be none",
        "hand_on",
        "                still := still || tried.left_by;\n",
        "",
    ),
    kept(
        "a release by its ticket ends the wait only",
        "the room would idle until its time is over",
        "release_slow_path",
        "        PERFORM celery_semaphore.v1_end_kept_room(_nonce, each.name) FROM unnest(_resources) AS each (name); -- H12\n",
        "",
        tests=rows("the_release_of_its_wait_ends_it"),
    ),
)
