"""Which files of a data entry a host gets. Pure.

`sharding: none` gives every host all files. `sharding: file` gives each *worker* files of its own, and every file to
one of them: the largest file goes first, each to the worker that has the fewest bytes so far (then the fewest files,
then the lowest number). Files of equal size are so dealt out in the order of their names, every n-th to the same
worker; files of different sizes come out balanced to within the largest of them; and every worker has one as long as
there are as many files as workers. The rule knows nothing but names, sizes and the number of workers: each host
finds its share alone, and finds the same one again after a restart.

The chief of `multi_worker` (and the only host of `single` and `mirrored`) is worker 0. With `parameter_server` the
parameter servers, and a chief that only coordinates, train nothing and get no file. An evaluator looks at all of them.

Data are best shared by file when they do not fit on one disk or would take long to fetch, and when any worker's part
looks like the whole: training then sees the global batch through the workers' own files, and steps per epoch are
those of the worker with the least. Without sharding every worker has everything and takes its part of each batch.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from training.host.bucket import Object
from trainyard.protocol.cluster import Assignment, Cluster, Role


@dataclass(frozen=True, slots=True)
class All:
    """Every file."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """No file."""


@dataclass(frozen=True, slots=True)
class Share:
    """The files of worker `worker` of `workers`."""

    worker: int
    workers: int


def due(cluster: Cluster, assignment: Assignment) -> All | Share | Nothing:
    """What a host gets of an entry that is shared out by file."""
    if assignment.role is Role.EVALUATOR:
        return All()
    readers = cluster.workers
    return Share(readers.index(assignment), len(readers)) if assignment in readers else Nothing()


def shares(files: Iterable[Object], workers: int) -> list[list[Object]]:
    """Each worker's files, sorted by key."""
    shared: list[list[Object]] = [[] for _ in range(workers)]
    heap = [(0, 0, worker) for worker in range(workers)]
    for item in sorted(files, key=lambda item: (-item.size, item.key)):
        size, count, worker = heapq.heappop(heap)
        shared[worker].append(item)
        heapq.heappush(heap, (size + item.size, count + 1, worker))
    return [sorted(share, key=lambda item: item.key) for share in shared]
