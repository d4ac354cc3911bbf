"""Examples that only the workers of parameter servers have: `sharding: file` puts different files on each worker.

A worker lists its records in a file before it serves. The chief, which has no records, reads that file on the worker.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from trainyard.runtime.data import Examples, Records, count_records
from trainyard.runtime.environment import Environment
from trainyard.values.quantities import format_count


@dataclass(frozen=True, slots=True)
class SharedExamples:
    """Examples that every worker has."""

    examples: Examples

    @property
    def count(self) -> int:
        return self.examples.count

    def of(self, worker: Any) -> Examples:
        return self.examples


@dataclass(frozen=True, slots=True)
class WorkerLocalExamples:
    """The records of each worker, in the order of the workers."""

    of_workers: tuple[Records, ...]

    @property
    def count(self) -> int:
        return sum(records.count for records in self.of_workers)

    def of(self, worker: Any) -> Examples:
        """Return the records of a worker in its graph, with files and count as tensors."""
        files = tf.ragged.constant([records.files for records in self.of_workers])[worker]
        count = tf.constant([records.count for records in self.of_workers], tf.int64)[worker]
        return replace(self.of_workers[0], files=files, count=count)

    def refuse_less_than(self, batch: int) -> None:
        """Raise SystemExit if a worker cannot fill one batch."""
        for worker, records in enumerate(self.of_workers):
            if records.count < batch:
                raise SystemExit(
                    f"worker {worker} has {format_count(records.count, 'example')} in "
                    f"{format_count(len(records.files), 'file')}, and its batch takes {batch}: with "
                    "`sharding: file` each worker needs at least one file, with enough examples for a batch"
                )


def by_worker(
    environment: Environment, examples: Examples, workers: int, *, batch: int
) -> SharedExamples | WorkerLocalExamples:
    """Return the examples of each worker. Raises SystemExit if a worker has too few."""
    if not isinstance(examples, Records) or not environment.holds_own_files_only(examples.folder):
        return SharedExamples(examples)
    found = read_records(environment, examples, workers)
    found.refuse_less_than(batch)
    return found


def write_records(environment: Environment, index: int) -> None:
    """Write the number of records in each file of this worker."""
    counts = {
        str(file): count_records(file)
        for name in environment.sharded
        for file in sorted(environment.data[name].rglob("*.tfrecord"))
    }
    path = _records_path(environment, index)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(counts))


def read_records(environment: Environment, records: Records, workers: int) -> WorkerLocalExamples:
    """Read the lists of the workers, for files in the folder of `records`."""
    found = []
    for index in range(workers):
        with tf.device(f"/job:worker/task:{index}/device:CPU:0"):
            written = tf.io.read_file(str(_records_path(environment, index)))
        counts = json.loads(written.numpy())
        files = tuple(file for file in counts if Path(file).is_relative_to(records.folder))
        found.append(replace(records, files=files, count=sum(counts[file] for file in files)))
    return WorkerLocalExamples(tuple(found))


def _records_path(environment: Environment, index: int) -> Path:
    return environment.progress.absolute().parent / f"records-worker-{index}.json"
