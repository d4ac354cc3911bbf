"""Choose the files of a data entry for each host. Pure.

`sharding: none` gives every host all files. `sharding: file` gives each file to exactly one *worker*. Files are dealt
out from the largest to the smallest, each to the worker with the fewest bytes so far (then the fewest files, then the
lowest number). Thus files of equal size go to the workers in turn, in the order of their names. Shares of files with
different sizes differ by at most the largest file. Every worker gets a file if there are enough. Each host computes its
share from names, sizes, and the number of workers, and finds the same share again after a restart.

The chief of `multi_worker` (and the only host of `single` and `mirrored`) is worker 0. With `parameter_server`, the
parameter servers and a chief that only coordinates do not train, and get no file. An evaluator gets all files.

Sharing by file suits data that do not fit on one disk or take long to fetch, if each worker's part resembles the whole.
Training then takes each batch from the workers' own files, and an epoch has the steps of the worker with the least
data. Without sharding, every worker has all files and takes its part of each batch."""

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
    """Return a host's part of an entry that is shared out by file."""
    if assignment.role is Role.EVALUATOR:
        return All()
    readers = cluster.workers
    return Share(readers.index(assignment), len(readers)) if assignment in readers else Nothing()


def shares(files: Iterable[Object], workers: int) -> list[list[Object]]:
    """Return each worker's files, sorted by key."""
    shared: list[list[Object]] = [[] for _ in range(workers)]
    heap = [(0, 0, worker) for worker in range(workers)]
    for item in sorted(files, key=lambda item: (-item.size, item.key)):
        size, count, worker = heapq.heappop(heap)
        shared[worker].append(item)
        heapq.heappush(heap, (size + item.size, count + 1, worker))
    return [sorted(share, key=lambda item: item.key) for share in shared]
