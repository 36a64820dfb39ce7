"""Wrong ideas about the room that waits keep (H12), in the functions of PostgreSQL."""

from __future__ import annotations

from .mutant import Group

ROWS = "tests/stores/test_conformance.py::TestEmbeddedPostgresStore"
ENDS = "ends_it or asking_again"
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
        "            AND (SELECT count(*) FROM celery_semaphore.v1_room_before(at.kept, ticket)) < 20\n",
        "",
        tests=rows("of_many_waits"),
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
        "floor(most / mean_there)::bigint + 2 ELSE",
        "10000 ELSE",
    ),
    kept(
        "a line is counted as far as the time here allows",
        "one more tells that it is too long",
        "kept_room",
        "floor(most / mean_there)::bigint + 2 ELSE",
        "floor(most / mean_there)::bigint - _head.weights[_refusing] ELSE",
    ),
    kept(
        "room is kept where permits come often",
        "its turn comes soon",
        "kept_room",
        "        RETURN NULL; -- permits come more slowly there\n",
        "        NULL;\n",
    ),
    kept(
        "permits may come as often as where it is refused",
        "twice as often is too often",
        "kept_room",
        "* limit_here > 2 * _head",
        "* limit_here > _head",
    ),
    kept(
        "the weights of both claims are taken for each other",
        "they are mostly the same",
        "kept_room",
        "IF _head.weights[_refusing] * mean_there * limit_here > 2 * _head.weights[_other] *",
        "IF _head.weights[_other] * mean_there * limit_here > 2 * _head.weights[_refusing] *",
    ),
    kept(
        "the limits of both claims are taken for each other",
        "they are mostly the same",
        "kept_room",
        "* limit_here > 2 * _head.weights[_other] * mean_here * limit_there THEN",
        "* limit_there > 2 * _head.weights[_other] * mean_here * limit_here THEN",
    ),
    kept(
        "permits are held for a second where none was released",
        "it is so elsewhere",
        "kept_room",
        "coalesce(_there.mean, _here.mean, 1000000)",
        "coalesce(_there.mean, 1000000)",
    ),
    kept(
        "waits in transit count for a turn",
        "they have places before it",
        "kept_room",
        ", '{in_line}'\n",
        "\n",
    ),
    kept(
        "a call that asks again ends its kept room",
        "each acquire does",
        "refuse",
        "IF _a.kind <> 'block' OR answer.reason <> 'saturated' THEN",
        "IF true THEN",
        tests=rows(ENDS),
    ),
    kept(
        "a call that has timed out leaves kept room",
        "it may ask again",
        "refuse",
        "IF _a.kind <> 'block' OR answer.reason <> 'saturated' THEN",
        "IF _a.kind <> 'block' THEN",
        tests=rows(ENDS),
    ),
    kept(
        "a delivery beside its own run leaves kept room",
        "its wait goes on",
        "refuse",
        "IF _a.kind <> 'block' OR answer.reason <> 'saturated' THEN",
        "IF _reason <> 'running' AND (_a.kind <> 'block' OR answer.reason <> 'saturated') THEN",
    ),
    kept(
        "an acquire that is admitted leaves kept room",
        "its time ends it",
        "acquire_slow_path",
        "    PERFORM celery_semaphore.v1_end_own_room((_a.ticket).nonce, _ats, _m);\n",
        "",
        tests=rows(ENDS),
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
        "kept_room",
        "        IF _ats[n].kept IS NOT NULL AND",
        "        IF false AND",
        tests=rows(ENDS),
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
