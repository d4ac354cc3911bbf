"""Examples as batches whose order is a function of (seed, epoch, step), whatever the number of workers.

The unit is the *global* batch. If every worker has all data, each worker reads the same order and takes its share of
each batch, so a resumed run has the same batches with more or fewer workers. If each worker has its own files
(`sharding: file` in the job), the order also depends on the number of workers.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from trainyard.runtime.environment import Environment
from trainyard.values.quantities import format_count

SHUFFLE_BUFFER = 10_000
READ_SIDE_BY_SIDE = 4
ENDLESS = 2**31
"""A number of epochs that no training reaches."""
AS_IT_IS = tf.autograph.experimental.do_not_convert
"""Skip AutoGraph for functions without control flow on tensors, because it delays each start."""


@dataclass(frozen=True, slots=True)
class Share:
    """This process's share of each global batch."""

    size: int
    """Examples to take from this process's order of the data."""
    pieces: tuple[tuple[int, int], ...]
    """The (from, to) of each replica within these examples."""

    @staticmethod
    def of_all_data(global_batch_size: int, *, replicas: range, of: int) -> "Share":
        """Return the share of `replicas` out of `of`, if all processes have the same data."""
        bounds = split(global_batch_size, of)
        return Share(global_batch_size, tuple((bounds[one], bounds[one + 1]) for one in replicas))

    @staticmethod
    def of_own_files(global_batch_size: int, *, replicas: range, of: int) -> "Share":
        """Return the share of `replicas` out of `of`, if this process has its own files."""
        common = Share.of_all_data(global_batch_size, replicas=replicas, of=of).pieces
        first, last = common[0][0], common[-1][1]
        return Share(last - first, tuple((start - first, end - first) for start, end in common))

    def batches_in(self, count: int) -> int:
        """Return the whole batches in `count` examples. The next epoch shuffles the rest in again."""
        return count // self.size


class Examples(Protocol):
    """Training examples of this process."""

    @property
    def count(self) -> int: ...

    @property
    def folder(self) -> Path | None:
        """Return the folder of the files; None for examples in memory, which every worker has."""

    def batches(self, share: Share, *, seed: int, first_step: int, per_epoch: int) -> Any:
        """Return an endless data set of the share's pieces from `first_step` on, one element for each piece."""

    def once(self, batch_size: int) -> Any:
        """Return all examples once, in order, for evaluation."""


@dataclass(frozen=True, slots=True)
class Records:
    """TFRecord files. A worker reads all records of a global batch but parses only its own."""

    folder: Path
    files: tuple[str, ...]
    count: int
    parse: Callable[[Any], Any]
    """Turns a batch of serialized records into (features, labels)."""

    @staticmethod
    def under(folder: Path, parse: Callable[[Any], Any]) -> "Records":
        """Return every *.tfrecord under `folder`. Raises SystemExit if this process needs files but has none."""
        files = sorted(folder.rglob("*.tfrecord"))
        if not files and not Environment.from_os().only_workers_have(folder):
            raise SystemExit(
                f"{folder} contains no *.tfrecord, so this process has nothing to train on; "
                "with `sharding: file`, give the job at least one file for each worker"
            )
        return Records(folder, tuple(map(str, files)), sum(map(count_records, files)), parse)

    def batches(self, share: Share, *, seed: int, first_step: int, per_epoch: int) -> Any:

        def in_order(epoch: Any) -> Any:
            return self._in_order(seed, epoch).batch(share.size, drop_remainder=True)

        pieces = _pieces(in_order, share, first_step=first_step, per_epoch=per_epoch)
        # One call at a time: records are small, and threads that wait for each other cost more.
        return _untuned(pieces.map(self.parse_all, num_parallel_calls=1).prefetch(2))

    def once(self, batch_size: int) -> Any:
        return _untuned(tf.data.TFRecordDataset(list(self.files)).batch(batch_size).map(self.parse_all))

    def parse_all(self, piece: Any) -> Any:
        return self.parse(piece)

    def _in_order(self, seed: int, epoch: Any) -> Any:
        """Return the serialized records of one epoch: shuffled shards, interleaved, and shuffled again."""
        mixed = tf.random.experimental.stateless_shuffle(
            tf.convert_to_tensor(self.files), seed=tf.stack([tf.cast(seed, tf.int64), epoch])
        )
        records = tf.data.Dataset.from_tensor_slices(mixed).interleave(
            tf.data.TFRecordDataset, cycle_length=READ_SIDE_BY_SIDE, block_length=16
        )
        buffer = tf.minimum(tf.cast(self.count, tf.int64), SHUFFLE_BUFFER)
        return records.shuffle(buffer, seed=epoch * 1_000_003 + seed, reshuffle_each_iteration=False)


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """Examples in memory. Every worker has all of them, in a new order for each epoch."""

    features: Any
    labels: Any

    def __post_init__(self) -> None:
        if len(self.features) != len(self.labels):
            raise SystemExit(
                f"{format_count(len(self.features), 'feature')} and {format_count(len(self.labels), 'label')}: "
                "give one label for each feature, in the same order"
            )

    @property
    def count(self) -> int:
        return len(self.labels)

    @property
    def folder(self) -> None:
        return None

    def batches(self, share: Share, *, seed: int, first_step: int, per_epoch: int) -> Any:
        features, labels = tf.constant(np.asarray(self.features)), tf.constant(np.asarray(self.labels))

        def in_order(epoch: Any) -> Any:
            mixed = tf.random.experimental.stateless_shuffle(
                tf.range(self.count, dtype=tf.int64), seed=tf.stack([tf.cast(seed, tf.int64), epoch])
            )
            return tf.data.Dataset.from_tensor_slices(mixed).batch(share.size, drop_remainder=True)

        pieces = _pieces(in_order, share, first_step=first_step, per_epoch=per_epoch)

        @AS_IT_IS
        def gathered(chosen: Any) -> Any:
            return tf.gather(features, chosen), tf.gather(labels, chosen)

        return _untuned(pieces.map(gathered).prefetch(2))

    def once(self, batch_size: int) -> Any:
        return _untuned(tf.data.Dataset.from_tensor_slices((self.features, self.labels)).batch(batch_size))


def _untuned(dataset: Any) -> Any:
    """Turn off autotuning.

    Its thread may miss the end of its iterator, and deleting the iterator then blocks for up to a minute on busy
    processors (TensorFlow 2.21, core/framework/model.cc).
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _pieces(in_order: Callable[[Any], Any], share: Share, *, first_step: int, per_epoch: int) -> Any:
    """Return the share's pieces of every batch from `first_step` on; `in_order(epoch)` returns an epoch's batches."""
    first_epoch, done = first_step // per_epoch, first_step % per_epoch
    lower, upper = (tf.constant([piece[side] for piece in share.pieces], tf.int64) for side in (0, 1))

    @AS_IT_IS
    def epoch_batches(epoch: Any) -> Any:
        skipped = tf.where(epoch == first_epoch, tf.cast(done, tf.int64), 0)
        return in_order(epoch).take(per_epoch).skip(skipped)

    @AS_IT_IS
    def cut(batch: Any) -> Any:
        own = tf.data.Dataset.from_tensor_slices((lower, upper))
        return own.map(lambda start, end: batch[start:end])

    return tf.data.Dataset.range(first_epoch, ENDLESS).flat_map(epoch_batches).flat_map(cut)


def split(size: int, parts: int) -> list[int]:
    """Bounds that cut `size` into `parts` as even as whole numbers allow: split(8, 3) is [0, 3, 6, 8]."""
    whole, rest = divmod(size, parts)
    bounds = [0]
    for part in range(parts):
        bounds.append(bounds[-1] + whole + (part < rest))
    return bounds


def count_records(path: Path) -> int:
    """Count the records of a TFRecord file by their framing. Raises SystemExit if the file is truncated."""
    size = path.stat().st_size
    position = count = 0
    with path.open("rb") as file:
        while position < size:
            head = file.read(8)
            if len(head) < 8:
                break
            (length,) = struct.unpack("<Q", head)
            position += 8 + 4 + length + 4
            file.seek(position)
            count += 1
    if position != size:
        raise SystemExit(f"{path} is truncated: the TFRecord file ends inside record {count}")
    return count
