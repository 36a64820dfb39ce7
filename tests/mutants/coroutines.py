"""Wrong ideas about coroutines that wait, and about what a process leaves behind at its end."""

from __future__ import annotations

from .mutant import Group

DECISIONS = "tests/core/test_acquisition.py"
TOLD = "tests/semaphore/test_told.py"
EXIT = "tests/semaphore/test_exit.py"
BLOCK = "tests/semaphore/test_permit_block.py"
ONE_SERVER = "tests/stores/test_call_all.py"
TOGETHER = "tests/stores/test_conformance.py::TestValkeyStore"

coroutines = Group("coroutines", "celery_semaphore")

MUTANTS = [
    coroutines(
        "an answer is read at once",
        "a loop may be blocked, or a process paused",
        "core/acquisition",
        "time.monotonic() - since > self.store.lease / BEATS",
        "False",
        f"{DECISIONS}::test_a_permit_whose_answer_is_read_late_is_renewed_first",
    ),
    coroutines(
        "a late renewal is none",
        "one renewal is enough",
        "core/acquisition",
        "        while time.monotonic() - since > ",
        "        if time.monotonic() - since > ",
        f"{DECISIONS}::test_a_renewal_that_is_read_late_is_made_again",
    ),
    coroutines(
        "a permit that is renewed late is held",
        "the store had admitted it",
        "core/acquisition",
        "            if renewal is Renewal.LOST:\n                return None\n",
        "",
        f"{DECISIONS}::test_a_permit_that_is_lost_by_then_is_acquired_by_another_name",
    ),
    coroutines(
        "a permit counts from the acquire of another name",
        "it is the same wait",
        "core/acquisition",
        "        self._asked = None\n        self._begin_as_another()\n",
        "        self._begin_as_another()\n",
        f"{DECISIONS}::test_a_permit_that_is_lost_by_then_is_acquired_by_another_name",
    ),
    coroutines(
        "no answer about a permit confirms it",
        "it is not lost",
        "core/acquisition",
        "            if renewal is None:\n",
        "            if False:\n",
        f"{DECISIONS}::test_a_renewal_without_an_answer_is_an_outage",
    ),
    coroutines(
        "the ticket is released before the holder",
        "the order is the same to the store; but an acquire may be on its way",
        "core/acquisition",
        "        return names\n\n    def _ask",
        "        return names[::-1]\n\n    def _ask",
        f"{DECISIONS}::test_of_what_is_given_up_the_holder_is_released_first",
    ),
    coroutines(
        "a release tells only the store",
        "the thread that asks hears of it",
        "semaphore",
        "            asker_of(self._store).tell(handed.granted)\n",
        "            pass\n",
        f"{TOLD}::test_a_release",
    ),
    coroutines(
        "a release in the background tells only the store",
        "nobody waits for it",
        "core/held_permits",
        "asker_of(store).tell(handed.granted)",
        "None",
        f"{TOLD}::test_a_release_in_the_background",
    ),
    coroutines(
        "a call that gives up tells only the store",
        "it had no permit",
        "core/blocking_waiter",
        "                asker_of(self._store).tell(handed.granted)\n",
        "",
        f"{TOLD}::test_a_call_that_gives_up",
    ),
    coroutines(
        "a process that ends has released all",
        "its threads go on",
        "core/held_permits",
        "atexit.register(_flush)\n",
        "",
        f"{EXIT}::test_queued_releases_are_made",
    ),
    coroutines(
        "a process ends when all is released",
        "however long that takes",
        "core/held_permits",
        "max(0.0, deadline - time.monotonic())",
        "1000.0",
        f"{EXIT}::test_for_a_second_at_most",
    ),
    coroutines(
        "each store has a second at the end",
        "it has queued releases, too",
        "core/held_permits",
        "max(0.0, deadline - time.monotonic())",
        "EXIT_TIMEOUT_S",
        f"{EXIT}::test_of_several_stores_for_a_second_together",
    ),
    coroutines(
        "a block of its own waits as long as its semaphore",
        "each block does",
        "semaphore",
        "PermitBlock(self, self._timeout if timeout is None else seconds(timeout))",
        "PermitBlock(self, self._timeout)",
        f"{BLOCK}::test_it_has_a_time_of_its_own",
    ),
    coroutines(
        "an interrupted block of its own was left",
        "its release repeats itself; but it may not have begun",
        "semaphore",
        "            self._semaphore._release_later(permit)  # noqa: SLF001\n",
        "",
        f"{BLOCK}::test_interrupted_while_it_is_left",
    ),
    coroutines(
        "an interrupted block of its own was not entered",
        "no permit was returned",
        "semaphore",
        "            self._semaphore._give_up(waiter)  # noqa: SLF001\n",
        "",
        f"{BLOCK}::test_interrupted_while_it_is_entered",
    ),
    coroutines(
        "calls that are made together have no order",
        "each has its own caller",
        "stores/redis/batch",
        "self._runner.run_mixed(list(asked.values()))",
        "self._runner.run_mixed(list(asked.values())[::-1])[::-1]",
        f"{TOGETHER}::test_they_are_made_in_their_order",
    ),
    coroutines(
        "an error of one call is that of all",
        "they were made together",
        "stores/redis/batch",
        "            return made(self._store, call)\n",
        "            raise SemaphoreError(str(answer))\n",
        f"{ONE_SERVER}::test_a_broken_record_costs_its_own_caller_only",
    ),
    coroutines(
        "a call that cannot be sent ends all",
        "it is checked before",
        "stores/redis/batch",
        "                found[n] = error\n",
        "                raise\n",
        f"{TOGETHER}::test_the_error_of_one_is_its_own",
    ),
    coroutines(
        "the claims of one wait are those of all calls",
        "they were made together",
        "stores/redis/batch",
        "        except SemaphoreError as error:\n            return error\n\n\ndef",
        "        except ZeroDivisionError as error:\n            return error  # type: ignore[return-value]\n\n\ndef",
        f"{TOGETHER}::test_the_error_of_one_is_its_own",
    ),
    coroutines(
        "a script is sent with each call that needs it",
        "the server forgot it",
        "stores/redis/runner",
        "                unknown.discard(script)  # the server knows it for the later calls\n",
        "",
        f"{ONE_SERVER}::test_a_server_that_forgot_the_scripts",
    ),
    coroutines(
        "after a fault all calls are repeated",
        "they are idempotent; but a release tells what it granted once",
        "stores/redis/runner",
        "left = [n for n in range(len(calls)) if n not in found]",
        "left = list(range(len(calls)))",
        f"{ONE_SERVER}::test_after_a_fault_only_those_without_an_answer_are_repeated",
    ),
    coroutines(
        "a call that may succeed elsewhere was refused",
        "the server answered",
        "stores/redis/runner",
        "                if _passes(each):\n                    raise each\n",
        "                found.setdefault(0, each)\n",
        f"{ONE_SERVER}::test_after_a_fault_only_those_without_an_answer_are_repeated",
    ),
]
