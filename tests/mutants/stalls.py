"""Wrong ideas about what one resource of a PostgreSQL store can do to all others, and what it forgets."""

from __future__ import annotations

from .postgresql import CONFORMANCE, FAULTS, HERE, postgresql

CHANGED = (*CONFORMANCE, "-k", "two_lines")
BROKEN = (FAULTS, "-k", "not embedded and (cannot_be or as_a_whole)")
SLOW = (FAULTS, "-k", "not embedded and slow_server")
AWAY = (FAULTS, "-k", "not embedded and TestAwayStandby")

MUTANTS = [
    postgresql(
        "only a lock concerns one resource",
        "whatever else fails is the store; but one bad row fails each batch that it is in",
        "connection.py",
        '_OF_ONE = (*_FINAL, "21", "23", "40", "55P03", "57014", "P0", "XX")\n',
        '_OF_ONE = ("55P03",)\n',
        tests=BROKEN,
    ),
    postgresql(
        "each failure concerns one resource",
        "so none is heard of where all of them fail",
        "connection.py",
        "    return state.startswith(_OF_ONE)\n",
        "    return True\n",
        tests=BROKEN,
    ),
    postgresql(
        "what fails is told each time",
        "it fails each time; but it is looked at each second",
        "broken.py",
        "                self._told.add(name)\n",
        "",
        tests=BROKEN,
    ),
    postgresql(
        "a slow server is asked for each resource",
        "each look by itself may be fast enough",
        "broken.py",
        "if took_too_long(error):",
        "if False:",
        tests=SLOW,
    ),
    postgresql(
        "two slow resources make a slow server",
        "they may be the two that are slow, with others between them",
        "broken.py",
        "            self._slow_in_a_row = 0\n",
        "",
        tests=SLOW,
    ),
    postgresql(
        "no limit is none that could rise",
        "what was put aside is forgotten, where the store forgot which limit was declared",
        "v1/line.sql",
        "SET too_heavy_above = CASE WHEN FOUND THEN coalesce(in_force, 0) END",
        "SET too_heavy_above = in_force",
        tests=(*CONFORMANCE, "-k", "heavier_than_its_own"),
    ),
    postgresql(
        "what was never held was never used",
        "there is no row that tells when",
        "v1/reap.sql",
        "v1_write_permit(at, NULL, 1, 0, _m.now, _m.now, _m.epoch)",
        "v1_write_permit(at, NULL, 1, 0, 0, 0, _m.epoch)",
        tests=(*CONFORMANCE, "-k", "not_forgotten_at_once"),
    ),
    postgresql(
        "what was never held was used just now",
        "there is no row that tells when, so it is kept for another ten leases, each time",
        "v1/reap.sql",
        "        IF at.rows = 0 THEN",
        "        IF false THEN",
        tests=(f"{HERE}/test_growth.py", "-k", "not embedded and let_nobody_in"),
    ),
    postgresql(
        "a new memory is as durable as can be",
        "the operator does not know what is at stake",
        "v1/epoch.sql",
        "PERFORM set_config('synchronous_commit', 'local', true)",
        "PERFORM set_config('synchronous_commit', 'on', true)",
        tests=AWAY,
    ),
    postgresql(
        "no permit is given back before it was given",
        "time goes on; but the server's clock may step back, and the mean is negative",
        "v1/release.sql",
        "greatest(0, now - p.since)",
        "now - p.since",
        tests=(*CONFORMANCE, "-k", "less_than_no_time"),
    ),
]
