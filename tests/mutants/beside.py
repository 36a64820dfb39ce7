"""Mutants of what other people's code meets: receivers, callbacks, eager runs, event loops, monitors."""

from __future__ import annotations

from .mutant import Mutant

SECRETS = "tests/worker/test_secrets.py"
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
