"""Mutants of what other people's code meets: receivers, callbacks, eager runs, event loops, monitors."""

from __future__ import annotations

from .mutant import Mutant

SECRETS = "tests/worker/test_secrets.py"
CHECKS = "tests/worker/test_permit.py"
EAGER = "tests/worker/test_eager.py"
LOOPS = "tests/core/test_semaphore_loops.py"
EVENTS = "tests/worker/test_events.py"
SIGNALS = "tests/worker/test_signals.py"
RECEIVERS = "tests/worker/test_receivers.py"
GUIDE = "tests/django/test_guide.py"
PROJECT = "tests/django/test_project.py"
PERMITS = "tests/core/test_semaphore_permits.py"


def beside(name: str, why: str, file: str, text: str, instead: str, *tests: str) -> Mutant:
    file = f"celery_semaphore/{file}.py"
    return Mutant(f"beside/{name}", why, file, text, instead, tests)


MUTANTS = [
    beside(
        "a task is started when a process takes it",
        "Celery says so",
        "worker/events",
        "        if type == STARTED:\n            return\n",
        "",
        f"{EVENTS}::test_a_task_that_fails_for_want_of_a_permit_was_never_started",
    ),
    beside(
        "an end overtakes its beginning",
        "the note of a permit is read before the end is reported",
        "worker/events",
        "            self._send_started()\n        super()",
        "            pass\n        super()",
        f"{EVENTS}::test_each_run_is_started_before_it_ends",
    ),
    beside(
        "a cancelled task was never started",
        "to be cancelled is no end",
        "worker/events",
        ', "cancelled")',
        ")",
        f"{EVENTS}::test_a_task_that_a_cold_shutdown_ends_was_started_before",
    ),
    beside(
        "a dispatcher sends what it is given",
        "it is enabled",
        "worker/events",
        'return not eventer.groups or "task" in eventer.groups',
        "return True",
        f"{EVENTS}::test_the_loop_is_called_only_for_an_event_that_is_sent",
    ),
    beside(
        "a task starts when its event is sent",
        "that is about the same time",
        "worker/events",
        "super().send_event(STARTED, timestamp=timestamp)",
        "super().send_event(STARTED, timestamp=max(timestamp, time.time()))",
        f"{EVENTS}::test_the_event_has_the_time_of_the_acquire",
    ),
    beside(
        "saturated is a state of the task",
        "it is about the task",
        "worker/events",
        'SATURATED = "semaphore-saturated"',
        'SATURATED = "task-saturated"',
        f"{EVENTS}::test_a_waiting_task_is_received_and_started_once_it_has_its_permit",
        "-k",
        "not rabbit and early-requeue",
    ),
    beside(
        "a dropped task is announced nowhere",
        "its result says so",
        "worker/request",
        "                self.dropped()\n",
        "                pass\n",
        f"{EVENTS}::test_a_dropped_task_is_shown_as_revoked",
    ),
    beside(
        "a wait stops an event loop",
        "the caller knows what it does",
        "core/semaphore",
        '    return loop is not None and getattr(loop, "_thread_id", here) == here\n',
        "    return False and here\n",
        f"{LOOPS}::TestInTheLoop::test_so_are_with_and_the_decorator",
    ),
    beside(
        "nothing may be asked in an event loop",
        "each call of the store blocks",
        "core/semaphore",
        "        if seconds > 0:\n            self._refuse",
        "        if seconds >= 0:\n            self._refuse",
        f"{LOOPS}::TestInTheLoop::test_it_may_ask_once_and_release",
    ),
    beside(
        "a loop in one greenlet stops all others",
        "they are in one thread",
        "core/semaphore",
        'return loop is not None and getattr(loop, "_thread_id", here) == here',
        "return loop is not None and bool(here)",
        f"{LOOPS}::TestBesideALoop::test_of_another_greenlet",
    ),
    beside(
        "an eager run waits for the run that it is part of",
        "each run has a permit of its own",
        "worker/eager",
        "missing = _missing(claims, outer)",
        "missing = tuple(claims)",
        f"{EAGER}::TestWhatCovers::test_the_permit_of_the_outer_run",
    ),
    beside(
        "a larger weight is covered by a smaller one",
        "the resource is held",
        "worker/eager",
        "if claim.weight > held[claim.resource]",
        "if not held[claim.resource]",
        f"{EAGER}::TestWhatCovers::test_a_larger_weight_asks_for_the_difference",
    ),
    beside(
        "what was given back covers",
        "its run is still on Celery's stack",
        "worker/eager",
        "    if held is None or ASKING not in request.__dict__:\n",
        "    if held is None:\n",
        f"{EAGER}::TestWhatCovers::test_not_one_that_was_given_back",
    ),
    beside(
        "another app's permit covers",
        "its semaphore has the same name",
        "worker/eager",
        "return held.permits[0] if held.store is store else None",
        "return held.permits[0]",
        f"{EAGER}::TestWhatCovers::test_not_another_app",
    ),
    beside(
        "an eager run waits for a weight that only its own end frees",
        "the limit may be raised meanwhile",
        "worker/eager",
        "    if held and held + claim.weight > refusal.limit:\n",
        "    if held > refusal.limit:\n",
        f"{EAGER}::TestWhatCovers::test_a_difference_that_can_never_be_had_fails_at_once",
    ),
    beside(
        "the thread of an eager run stays",
        "it is a daemon",
        "worker/eager",
        "        finally:\n            self._keeper.stop()\n",
        "        finally:\n            pass\n",
        f"{EAGER}::TestLeavesNothing::test_no_thread_stays",
    ),
    beside(
        "an eager run is not renewed",
        "it is short",
        "worker/eager",
        "        self._keeper.start()\n",
        "",
        f"{EAGER}::TestLeavesNothing::test_it_is_renewed_while_it_runs",
    ),
    beside(
        "check asks for one permit only",
        "the others belong to other runs",
        "worker/permit",
        "self.store.renew(self.permits)",
        "self.store.renew(self.permits[:1])",
        f"{EAGER}::TestWhatCovers::test_a_larger_weight_asks_for_the_difference",
    ),
    beside(
        "one answer confirms all permits of a run",
        "the store was there",
        "worker/permit",
        "if permit.holder not in renewals]",
        "if not renewals]",
        f"{CHECKS}::test_a_permit_that_is_never_answered_is_taken_for_lost_after_a_lease",
    ),
    beside(
        "an eager run stops an event loop",
        "its wait is bounded",
        "worker/eager",
        "    if is_in_event_loop():\n",
        "    if False:\n",
        f"{EAGER}::TestInAnEventLoop::test_it_does_not_wait",
    ),
    beside(
        "the report shows the store's password",
        "Celery hides what is secret",
        "ops/cli",
        "\nhide_url()  #",
        "\n#",
        f"{SECRETS}::test_the_report_of_an_app_that_only_names_us",
    ),
    beside(
        "a worker shows the store's password",
        "its command line hides it",
        "worker/task",
        "\nhide_url()\n",
        "\n",
        f"{SECRETS}::test_what_celery_shows",
    ),
    beside(
        "settings show their url",
        "it is of use in a traceback",
        "settings",
        "url: str = field(repr=False)",
        "url: str = field()",
        SECRETS,
    ),
    beside(
        "a check imports the tasks while they are imported",
        "an import that is under way is not done twice",
        "django/project",
        'celery_app() if getattr(_importing, "now", False) else _imported()',
        "_imported()",
        GUIDE,
    ),
    beside(
        "one failed import stops all later ones",
        "it is set back when the import is done",
        "django/project",
        "    finally:\n        _importing.now = False\n",
        "    except ValueError:\n        _importing.now = False\n",
        f"{PROJECT}::test_an_import_that_failed_is_tried_again_when_asked_to_begin_anew",
    ),
    beside(
        "receivers run where the event happens",
        "a signal is sent where it happens, as Celery's own",
        "worker/announcements",
        "self._receivers.add(send, urgent=urgent)",
        "send()",
        f"{SIGNALS}::test_a_receiver_of_permit_lost_that_hangs_stops_no_renewal",
    ),
    beside(
        "a lost permit waits behind all releases",
        "first come, first served",
        "worker/receivers",
        "self._calls.appendleft(call)",
        "self._calls.append(call)",
        f"{RECEIVERS}::test_calls_in_order_but_the_urgent_first",
    ),
    beside(
        "a slow receiver fills the memory",
        "no signal may be dropped",
        "worker/receivers",
        "if len(self._calls) >= (2 * MAX_QUEUED if urgent else MAX_QUEUED):",
        "if False:",
        f"{RECEIVERS}::test_too_many_calls_are_dropped_and_logged_once",
    ),
    beside(
        "a signal handler logs that signals are dropped",
        "a log line takes no lock of ours",
        "worker/receivers",
        "self._log_soon(self._log_dropped)",
        "self._log_dropped()",
        f"{RECEIVERS}::test_too_many_calls_are_dropped_and_logged_once",
    ),
    beside(
        "a receiver that exits ends the thread",
        "Exception is every error",
        "worker/receivers",
        "except (Exception, SystemExit):",
        "except Exception:",
        f"{RECEIVERS}::test_a_receiver_that_fails_stops_no_other",
    ),
    beside(
        "an IndexError of a receiver ends the round",
        "the queue is empty then",
        "worker/receivers",
        "call = self._calls.popleft()",
        "call = self._calls.popleft()()",
        f"{RECEIVERS}::test_a_receiver_that_fails_stops_no_other",
    ),
    beside(
        "receivers go on after the worker said that they do not",
        "the thread is a daemon, it ends by itself",
        "worker/receivers",
        "            self._calls.clear()\n",
        "",
        f"{RECEIVERS}::test_close_waits_for_a_receiver_that_hangs_no_longer_than_told",
    ),
    beside(
        "on_lost runs in the thread that renews",
        "it is only a callback",
        "core/holdings",
        "                _call(on_lost, permit)\n",
        "                _logged(on_lost, permit)\n",
        f"{PERMITS}::TestEnds::test_a_callback_that_hangs_holds_up_neither_renewals_nor_others",
    ),
]
