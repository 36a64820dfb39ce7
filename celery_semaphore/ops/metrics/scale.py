"""Scale: how much of a queue's work can run now, for an autoscaler."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from .load import Load
from .state import State


@dataclass(frozen=True, slots=True)
class Scale:
    """What an autoscaler must know of one queue: replicas = max(ceil(runnable / processes of a worker), floor)."""

    runnable: int  # tasks that run or could run now
    waiting: int  # tasks that wait for a permit, of the whole store
    floor: int  # 0 only when nothing is left to do

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def scale_of(state: State, load: Load, ready: int, unacknowledged: int) -> Scale:
    """Return the scale of a queue with ``ready`` messages, in the queue itself and in its granted queue.

    ``runnable = running + max(0, ready + prefetched - blocked)``

    What runs always counts, or long tasks would be scaled away. A task that waits in the store or in a worker is
    neither ready nor prefetched. But a worker that ends gives its waiting tasks back to the queue, where they are ready
    again until another worker was refused their permits; the store knows them as in transit. If they counted, each
    end of a worker would start many, which end soon after and give back in turn. So those that could not run are
    subtracted: for each key ``blocked = max(0, in_transit - max(0, free - parked - reachable))``, summed over all keys.

    The errors are in the direction of too few workers, not of none: ``floor`` is 1 while anything is known to be left.
    That includes tasks that wait for their eta in a worker, and on Redis the messages that a killed worker had, of any
    queue, which only a worker that lives restores.

    * The store does not know the queues of waits. So ``blocked`` is that of the whole store, for each queue.
    * A wait that lies in no queue is subtracted, too: its message is published with a delay, or unacknowledged by a
      worker that was killed, or it is a call of a process that sleeps.

    In the other direction: a message that no worker has tried yet is ready, so new tasks of a full semaphore count
    until a worker was refused their permits; and ``blocked`` takes each wait for one of weight 1.
    """
    sums = state.semaphores.values()
    blocked = sum(each.blocked for each in sums)
    runnable = load.running + max(ready + load.prefetched - blocked, 0)
    # Skipped keys may hold anything.
    left = (ready, load.running, load.prefetched, load.scheduled, unacknowledged, state.skipped)
    floor = int(any(left) or any(each.unfinished for each in sums))
    return Scale(runnable, sum(each.waiting for each in sums), floor)
