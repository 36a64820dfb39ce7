"""The counting server really sees who is inside."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from traceback import walk_stack
from types import FrameType

import pytest

from tests.support.counter import Counter
from tests.support.process import wait_until

fork = multiprocessing.get_context("fork")


class Crowd:
    """Processes that stay inside until told to leave."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        # A pipe, not an Event: that one waits for ever for a sleeper that was killed.
        self.door, self.key = os.pipe()
        self.processes: list[BaseProcess] = []

    def enter(self, resource: str, people: int = 1) -> None:
        for _ in range(people):
            name = f"task-{len(self.processes)}"
            self.processes.append(fork.Process(target=self._body, args=[resource, name]))
            self.processes[-1].start()

    def _body(self, resource: str, task: str) -> None:
        with self.counter.inside(resource, task):
            os.read(self.door, 1)

    def gather(self) -> None:
        os.write(self.key, b"." * len(self.processes))
        for process in self.processes:
            process.join(10)


@pytest.fixture
def crowd(counter: Counter) -> Iterator[Crowd]:
    crowd = Crowd(counter)
    yield crowd
    crowd.gather()
    for process in crowd.processes:
        process.kill()


def inside(counter: Counter, resource: str) -> int:
    return int(counter.stats(resource)["inside"])


def test_ten_processes_are_seen_inside_at_once(counter: Counter, crowd: Crowd) -> None:
    crowd.enter("api", 10)
    wait_until(lambda: inside(counter, "api") == 10, 10, "ten inside")

    crowd.gather()
    stats = counter.stats("api")
    assert stats["inside"] == 0
    assert stats["max_inside"] == 10
    assert stats["entries"] == stats["completed"] == 10
    assert stats["tasks"]["task-3"]["entries"] == 1


def test_one_after_the_other_is_never_two(counter: Counter) -> None:
    for task in range(50):
        with counter.inside("api", str(task)) as now:
            assert now == 1
    assert counter.stats("api")["max_inside"] == 1
    assert counter.stats("api")["completed"] == 50


def test_resources_are_counted_apart(counter: Counter, crowd: Crowd) -> None:
    crowd.enter("a", 2)
    crowd.enter("b", 3)
    wait_until(lambda: (inside(counter, "a"), inside(counter, "b")) == (2, 3), 10)
    assert counter.all_stats()["b"]["max_inside"] == 3


def test_a_killed_process_is_inside_no_more(counter: Counter, crowd: Crowd) -> None:
    crowd.enter("api", 3)
    wait_until(lambda: inside(counter, "api") == 3, 10)

    victim = crowd.processes[1]
    victim.kill()
    victim.join(10)
    # Its death is known to us now, as to a worker's main process: so it must be to the counter.
    stats = counter.stats("api")
    assert (stats["inside"], stats["closed"]) == (2, 1)
    assert stats["tasks"]["task-1"] == {
        "entries": 1,
        "completed": 0,
        "failed": 0,
        "closed": 1,
        "pardoned": 0,
    }
    times_and_events = [(entry[1], entry[4]) for entry in counter.log("api")]
    assert times_and_events[-1] == ("closed", victim.pid)


def test_a_killed_parent_is_not_kept_inside_by_its_child(counter: Counter) -> None:
    def parent() -> None:
        with counter.inside("api", "parent"):
            child = fork.Process(target=signal.pause)
            child.start()
            children.send(child.pid)
            signal.pause()

    receiver, children = fork.Pipe(duplex=False)
    process = fork.Process(target=parent)
    process.start()
    assert receiver.poll(10), "the parent has no child"
    child_pid = receiver.recv()
    assert inside(counter, "api") == 1
    try:
        process.kill()
        process.join()  # with a timeout, it would wait for the child too
        wait_until(lambda: inside(counter, "api") == 0, 5, "the parent's end to be seen")
    finally:
        os.kill(child_pid, signal.SIGKILL)


def test_a_paused_process_stays_inside_until_pardoned(counter: Counter, crowd: Crowd) -> None:
    crowd.enter("api")
    wait_until(lambda: inside(counter, "api") == 1, 10)
    pid = crowd.processes[0].pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    assert inside(counter, "api") == 1
    assert counter.pardon(pid) == 1
    assert inside(counter, "api") == 0
    os.kill(pid, signal.SIGCONT)


def test_a_body_that_raises_has_failed(counter: Counter) -> None:
    with pytest.raises(ZeroDivisionError), counter.inside("api", "t"):
        1 / 0  # noqa: B018
    stats = counter.stats("api")
    assert (stats["inside"], stats["failed"], stats["completed"]) == (0, 1, 0)


def test_threads_share_the_connection(counter: Counter) -> None:
    together = threading.Barrier(8)

    def body(task: str) -> None:
        with counter.inside("api", task):
            together.wait(10)

    threads = [threading.Thread(target=body, args=[str(n)]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    stats = counter.stats("api")
    assert (stats["max_inside"], stats["inside"], stats["completed"]) == (8, 0, 8)


def test_an_interrupted_question_does_not_shift_the_answers(counter: Counter) -> None:
    class Interrupted(Exception):
        pass

    def strike(_: int, frame: FrameType | None) -> None:
        """Only where a question is open: a run that has no `finally` yet would be counted for ever."""
        if any(each.f_code.co_name == "_exchange" for each, _ in walk_stack(frame)):
            raise Interrupted
        signal.setitimer(signal.ITIMER_REAL, 0.00005)

    before = signal.signal(signal.SIGALRM, strike)
    try:
        for _ in range(200):
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
            try:
                while True:
                    with counter.inside("api", "t") as now:
                        assert now == 1
            except Interrupted:
                signal.setitimer(signal.ITIMER_REAL, 0)
            # The server hears of the closed connection and of the next one in any order.
            wait_until(lambda: inside(counter, "api") == 0, 5, "nobody inside")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    wait_until(lambda: inside(counter, "api") == 0, 5, "nobody inside")
    assert counter.stats("api")["max_inside"] == 1


def test_it_counts_thousands_of_entries_per_second(counter: Counter) -> None:
    def body() -> None:
        for task in range(250):
            with counter.inside("api", str(task)):
                pass

    start = time.monotonic()
    processes = [fork.Process(target=body) for _ in range(16)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    took = time.monotonic() - start
    assert counter.stats("api")["completed"] == 4000
    assert took < 8, f"{4000 / took:.0f} entries per second"
