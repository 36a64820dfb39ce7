"""Mutants of metrics: what is counted, where, how often, and who can see it."""

from __future__ import annotations

from .mutant import Group

FIGURES = "tests/metrics/test_figures.py"
SERVER = "tests/metrics/test_server.py"
TELEMETRY = "tests/metrics/test_opentelemetry.py"
LEDGER = "tests/worker/permits/test_ledger.py"
COUNTS = "tests/worker/metrics/test_counts.py"
EXPOSING = "tests/worker/metrics/test_exposing.py"

counts = Group("counts", "celery_semaphore")

MUTANTS = [
    counts(
        "a process of the pool keeps the port",
        "the server's thread does not run there",
        "metrics/server",
        "os.register_at_fork(after_in_child=_close_in_child)\n",
        "",
        f"{SERVER}::test_a_forked_child_neither_serves_nor_keeps_the_port",
    ),
    counts(
        "each host is answered",
        "Prometheus runs on another one",
        "settings",
        'metrics_address: str = "127.0.0.1"',
        'metrics_address: str = "0.0.0.0"',
        f"{EXPOSING}::test_only_this_host_is_answered_unless_said_otherwise",
    ),
    counts(
        "a taken port ends the worker",
        "it is an error of the configuration",
        "worker/main_process/worker_metrics",
        "        except OSError as error:\n",
        "        except FileNotFoundError as error:\n",
        f"{EXPOSING}::test_a_port_that_is_taken_costs_the_metrics_and_no_task",
    ),
    counts(
        "an ended worker keeps its port",
        "its process ends anyway",
        "worker/main_process/worker_metrics",
        "            self._server.close()\n",
        "            pass\n",
        f"{EXPOSING}::test_workers_one_after_the_other_in_one_process",
    ),
    counts(
        "an event waits for a lock",
        "a list that two threads change needs one",
        "metrics/recorder",
        "        self._queue.append((event, task))\n",
        "        with self._lock:\n            self._queue.append((event, task))\n",
        f"{FIGURES}::test_a_listener_waits_for_nothing",
    ),
    counts(
        "a permit counts as often as its note is entered",
        "each note is written once",
        "worker/permits/ledger",
        "            delivery.unannounced.pop()\n",
        "",
        f"{LEDGER}::test_a_permit_is_announced_once_though_its_note_is_entered_twice",
    ),
    counts(
        "the time of a permit is by two clocks",
        "the permit says when it was acquired",
        "worker/permits/ledger",
        "held = time.monotonic() - delivery.since",
        "held = time.time() - permit.acquired_at",
        f"{LEDGER}::test_the_time_of_a_permit_does_not_depend_on_the_clock_of_the_store",
    ),
    counts(
        "a label shows the key",
        "a resource is what is limited",
        "metrics/figures",
        "dict.fromkeys(claim.semaphore for",
        "dict.fromkeys(claim.resource for",
        f"{FIGURES}::test_no_label_shows_a_key",
    ),
    counts(
        "each claim counts",
        "a semaphore with two keys is two",
        "metrics/figures",
        "tuple(dict.fromkeys(claim.semaphore for claim in permit.claims))",
        "tuple(claim.semaphore for claim in permit.claims)",
        f"{FIGURES}::test_an_event_of_several_semaphores_counts_once_for_each",
    ),
    counts(
        "there is no end of labels",
        "semaphores are declared in code, so they are few",
        "metrics/labels",
        "if len(self._known) >= self._most:",
        "if len(self._known) >= self._most * 1000:",
        f"{FIGURES}::test_labels_are_few",
    ),
    counts(
        "any text can be encoded",
        "it was a message, so it was encoded before",
        "metrics/labels",
        'return text.encode("utf-8", "replace").decode()',
        "return text",
        f"{FIGURES}::test_any_name_can_be_scraped",
    ),
    counts(
        "a bucket excludes its upper bound",
        "as ranges do in Python",
        "metrics/tally",
        "from bisect import bisect_left\n",
        "from bisect import bisect_right as bisect_left\n",
        f"{FIGURES}::test_times_fall_into_buckets_that_include_their_bound",
    ),
    counts(
        "Prometheus gets what was counted half a second ago",
        "the thread counts often enough",
        "metrics/recorder",
        "            self._count()\n            yield self._tally\n",
        "            yield self._tally\n",
        f"{FIGURES}::test_a_listener_waits_for_nothing",
    ),
    counts(
        "forked processes repeat the counters",
        "they record nothing, so they have nothing to say",
        "metrics/opentelemetry",
        "            if os.getpid() != self._pid:\n                return\n",
        "",
        f"{TELEMETRY}::test_a_forked_process_does_not_repeat_the_counters",
    ),
    counts(
        "the next worker of a process begins at zero",
        "it has a tally of its own",
        "metrics/opentelemetry",
        "self._tallies.append(tally)",
        "self._tallies[:] = [tally]",
        f"{TELEMETRY}::test_workers_one_after_the_other_add_up",
    ),
    counts(
        "an error inside a body ends the wait of its task",
        "it is the same class",
        "worker/main_process/refused_request",
        "        if failure is None or self._limiter.process.ledger.holds(self.holder):\n",
        "        if failure is None:\n",
        f"{COUNTS}::test_a_refusal_inside_a_body_is_not_that_of_its_task",
    ),
    counts(
        "what never waited ends a wait",
        "it was revoked before it ran",
        "worker/main_process/refused_request",
        "if ended and not known and self._waits:",
        "if ended and not known:",
        f"{COUNTS}::test_what_never_waited_did_not_end_a_wait",
    ),
    counts(
        "a held message has not waited",
        "its header says nothing of a wait",
        "worker/main_process/refused_request",
        "        self._waits = True\n        self._announce(",
        "        self._announce(",
        f"{COUNTS}::test_waits_that_end_without_a_run",
    ),
    counts(
        "a message is parked before the store has it",
        "it is about to be",
        "worker/messages/park",
        "        payload = packed(request.message, came_from, way, request.refusals)\n",
        "        payload = packed(request.message, came_from, way, request.refusals)\n"
        "        self.announce(MessageParkedEvent(request.semaphores, request.name))\n",
        f"{COUNTS}::test_a_task_that_is_parked",
    ),
]
