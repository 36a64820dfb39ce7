"""Wrong ideas about permits for code outside tasks."""

from __future__ import annotations

from .mutant import Mutant

HERE = "tests/semaphore"
WAITS, PERMITS = f"{HERE}/test_semaphore.py", f"{HERE}/test_permits.py"
FAULTS = f"{HERE}/test_faults.py::TestFailingStore"
TIMEOUT = f"{WAITS}::TestTimeout"
FORKS = f"{PERMITS}::TestForks"
ASKER = "tests/core/test_asker.py"
THREAD = "tests/core/test_background_thread.py"


def outside(name: str, why: str, file: str, text: str, instead: str, *tests: str) -> Mutant:
    file = f"celery_semaphore/{file}.py"
    return Mutant(f"outside/{name}", why, file, text, instead, tests)


MUTANTS = [
    outside(
        "a crowd is turned away",
        "who finds no place fails, and is asked again by its own loop",
        "stores/connection_limit",
        "not self._changed.wait_for(\n                self._is_one_free, self._timeout\n            ):",
        "True:",
        "tests/stores/test_connection_limit.py::test_who_finds_all_places_taken_waits_for_one",
    ),
    outside(
        "a failed call keeps its place",
        "it will be asked again",
        "stores/connection_limit",
        "        with self._changed:\n            self._taken -= 1\n",
        "        with self._changed:\n            self._taken -= int(_[0] is None)\n",
        "tests/stores/test_connection_limit.py::test_a_failed_call_leaves_its_place",
    ),
    outside(
        "a handler waits for whom it interrupted",
        "a lock with a timeout never waits for ever",
        "stores/non_reentrant_lock",
        "self._owner == get_ident() or not",
        "not",
        "tests/stores/test_non_reentrant_lock.py",
    ),
    outside(
        "leaves its ticket in the line",
        "the store forgets it anyway, a lease later",
        "core/blocking_waiter",
        "names: list[str | Ticket] = [self._ticket] if self._ticket else []",
        "names: list[str | Ticket] = []",
        f"{TIMEOUT}::test_interrupted",
    ),
    outside(
        "an error leaves the line by itself",
        "only the timeout was thought of",
        "core/blocking_waiter",
        "        except BaseException:\n",
        "        except SemaphoreTimeout:\n",
        f"{TIMEOUT}::test_interrupted",
    ),
    outside(
        "an unanswered question is forgotten by the next refusal",
        "it may arrive later than that",
        "core/blocking_waiter",
        "if self._unanswered or self._asked is not None:",
        "if self._asked is not None:",
        f"{FAULTS}::test_a_question_that_arrives_late_gets_no_permit",
    ),
    outside(
        "an interrupted question has no answer",
        "Ctrl-C comes after the store said yes",
        "core/blocking_waiter",
        "if self._unanswered or self._asked is not None:",
        "if self._unanswered:",
        f"{FAULTS}::test_interrupted_while_it_asks",
    ),
    outside(
        "a lease counts from the question that was answered",
        "the one before it may have been granted",
        "core/blocking_waiter",
        "asked = self._asked = self._asked or time.monotonic()",
        "asked = self._asked = time.monotonic()",
        f"{FAULTS}::test_its_lease_counts_from_the_question_that_was_not_answered",
    ),
    outside(
        "a dead holder asks for ever",
        "each answer is: released",
        "core/blocking_waiter",
        "            self._holder = new_name()\n            return 0.0\n",
        "            return 0.0\n",
        f"{FAULTS}::test_a_holder_that_was_declared_dead_meanwhile",
    ),
    outside(
        "who asks once stands in the line",
        "and its ticket must be given up again",
        "core/blocking_waiter",
        "        if self._timeout <= 0:\n            return None\n",
        "",
        f"{TIMEOUT}::test_asked_once",
    ),
    outside(
        "a pause is longer than the timeout",
        "the store is out of reach, and nobody bounds the sleep",
        "core/blocking_waiter",
        "self._pause(min(pause, left))",
        "self._pause(pause)",
        f"{FAULTS}::test_within_its_timeout",
    ),
    outside(
        "a child renews and releases for its parent",
        "its memory says that it holds the permit",
        "core/held_permits",
        "os.register_at_fork(after_in_child=by_store.clear)\n",
        "",
        FORKS,
    ),
    outside(
        "anybody may release",
        "the permit was passed on",
        "semaphore",
        "        if not held_permits_in(self._store).take(permit):\n            return\n",
        "        held_permits_in(self._store).take(permit)\n",
        f"{FORKS}::test_a_child_gives_nothing_back",
    ),
    outside(
        "what was given back is renewed on",
        "the keeper finds out by itself",
        "core/held_permits",
        "        self._keeper.discard(permit.holder)\n",
        "",
        f"{PERMITS}::TestEnds::test_one_keeper_renews_all_in_one_batch",
    ),
    outside(
        "leaves with the permit that was entered last",
        "of whatever semaphore",
        "semaphore",
        "reversed(pairs) if pair[0] is self",
        "reversed(pairs)",
        f"{WAITS}::TestLimit::test_each_leaves_with_its_own_permit",
    ),
    outside(
        "a session that slept goes on waiting",
        "its waits are in the store",
        "core/asker",
        "all_of_them=reply.slept or self._missed)",
        "all_of_them=self._missed)",
        f"{ASKER}::test_a_session_that_slept_calls_all",
    ),
    outside(
        "an outage ends no grant",
        "the next answer has them all",
        "core/asker",
        "all_of_them=reply.slept or self._missed)",
        "all_of_them=reply.slept)",
        f"{FAULTS}::test_questions_may_fail",
    ),
    outside(
        "each call that begins to wait is asked for at once",
        "it may be the next",
        "core/asker",
        "        time.sleep(least)  # many new calls at once must not cause a question each\n",
        "",
        f"{ASKER}::test_a_crowd_is_asked_for_together",
    ),
    outside(
        "the thread asks for nothing",
        "it may be needed again",
        "core/asker",
        "                self._thread = None\n",
        "                pass\n",
        f"{ASKER}::test_nothing_is_asked_where_nothing_waits",
    ),
    outside(
        "a step that fails ends its thread",
        "the interpreter logs it; but no permit is renewed any more",
        "core/background_thread",
        "                time.sleep(ERROR_PAUSE_S)\n",
        "                return\n",
        f"{THREAD}::test_a_step_that_fails_ends_nothing",
    ),
    outside(
        "a step that exits ends its thread",
        "Exception is every error",
        "core/background_thread",
        "            except (Exception, SystemExit):\n",
        "            except Exception:\n",
        f"{THREAD}::test_a_step_that_fails_ends_nothing",
    ),
    outside(
        "a thread waits for its own end",
        "only others end it",
        "core/background_thread",
        "        if thread is threading.current_thread():\n            return False\n",
        "",
        f"{THREAD}::test_it_does_not_wait_for_itself",
    ),
    outside(
        "a thread begins whenever it is started",
        "it is started once",
        "core/background_thread",
        "        if self._thread is None:\n",
        "        if True:\n",
        f"{THREAD}::test_it_runs_one_thread_until_it_is_over",
    ),
    outside(
        "a process without a worker reaps nothing",
        "workers sweep; but there may be none",
        "core/held_permits",
        "LeaseKeeper(store, announce, store.reap)",
        "LeaseKeeper(store, announce)",
        f"{PERMITS}::TestEnds::test_what_is_overdue_ends_where_no_worker_sweeps",
    ),
    outside(
        "a store that was not asked answers",
        "nothing failed",
        "core/lease",
        "        if self._warned and self._kept:",
        "        if self._warned:",
        "tests/core/test_lease.py",
    ),
    outside(
        "a forked child asks by its parent's session",
        "it has a copy of it",
        "core/asker",
        "os.register_at_fork(after_in_child=_by_store.clear)\n",
        "",
        f"{ASKER}::test_a_forked_child_has_a_session_of_its_own",
    ),
    outside(
        "a call that ended is asked for",
        "its ticket is gone",
        "core/blocking_waiter",
        "                self._asker.discard(self._waiting.wait)\n",
        "                pass\n",
        f"{WAITS}::TestOrder::test_no_polling",
    ),
]
