"""Examples as batches whose order is a function of (seed, epoch, step), whatever the number of workers.

The unit is the *global* batch. Where every worker has all data, each reads the same order and takes its share of each
batch, so a run that goes on with more or fewer workers goes on with the same batches. Where each worker has files of
its own (`sharding: file` in the job), it batches those: the order then is a function of the number of workers too.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from trainyard.runtime.environment import Environment
from trainyard.values.quantities import counted

SHUFFLE_BUFFER = 10_000
READ_SIDE_BY_SIDE = 4
ENDLESS = 2**31
"""Epochs: more than anybody trains."""
AS_IT_IS = tf.autograph.experimental.do_not_convert
"""AutoGraph need not read, rewrite and compile what has no control flow on tensors: each start would wait for that."""


@dataclass(frozen=True, slots=True)
class Share:
    """What this process does of each global batch: it takes `size` examples from its order of the data and gives its
    replicas the `pieces` (from, to) of them."""

    size: int
    pieces: tuple[tuple[int, int], ...]

    @staticmethod
    def of_all_data(global_batch_size: int, *, replicas: range, of: int) -> "Share":
        """This process's `replicas` out of `of`: all have the same data, and each takes its part of every batch."""
        bounds = split(global_batch_size, of)
        return Share(global_batch_size, tuple((bounds[one], bounds[one + 1]) for one in replicas))

    @staticmethod
    def of_own_files(global_batch_size: int, *, replicas: range, of: int) -> "Share":
        """The same parts, but taken from data that only this process has."""
        common = Share.of_all_data(global_batch_size, replicas=replicas, of=of).pieces
        first, last = common[0][0], common[-1][1]
        return Share(last - first, tuple((start - first, end - first) for start, end in common))

    def batches_in(self, count: int) -> int:
        """Whole batches in `count` examples; what is left over rests until the next epoch mixes anew."""
        return count // self.size


class Examples(Protocol):
    """`count` examples here. `batches`: a share's pieces from `first_step` on, one element a piece, without end."""

    @property
    def count(self) -> int: ...

    @property
    def folder(self) -> Path | None:
        """Where they lie; None: in memory, and every worker has them all."""

    def batches(self, share: Share, *, seed: int, first_step: int, per_epoch: int) -> Any: ...

    def once(self, batch_size: int) -> Any:
        """Everything once, in order, for evaluation."""


@dataclass(frozen=True, slots=True)
class Records:
    """`parse` turns a batch of serialised records into (features, labels); `files` are TFRecord shards.

    A worker reads all records of a global batch but parses only its own.
    """

    folder: Path
    files: tuple[str, ...]
    count: int
    parse: Callable[[Any], Any]

    @staticmethod
    def under(folder: Path, parse: Callable[[Any], Any]) -> "Records":
        """Every *.tfrecord under `folder`; none on the chief of parameter servers where the workers have them."""
        files = sorted(folder.rglob("*.tfrecord"))
        if not files and not Environment.from_os().only_workers_have(folder):
            raise SystemExit(
                f"there is no *.tfrecord under {folder}: this process has nothing to train on; "
                "with `sharding: file` there must be at least as many files as workers"
            )
        return Records(folder, tuple(map(str, files)), sum(map(count_records, files)), parse)

    def batches(self, share: Share, *, seed: int, first_step: int, per_epoch: int) -> Any:
        """The parsed pieces of this process's share."""

        def in_order(epoch: Any) -> Any:
            return self._in_order(seed, epoch).batch(share.size, drop_remainder=True)

        pieces = _pieces(in_order, share, first_step=first_step, per_epoch=per_epoch)
        # One record after the other: the records are small, and threads that wait for each other cost more.
        return _untuned(pieces.map(self.parse_all, num_parallel_calls=1).prefetch(2))

    def once(self, batch_size: int) -> Any:
        return _untuned(tf.data.TFRecordDataset(list(self.files)).batch(batch_size).map(self.parse_all))

    def parse_all(self, piece: Any) -> Any:
        return self.parse(piece)

    def _in_order(self, seed: int, epoch: Any) -> Any:
        """The serialised records of one epoch: shards mixed, read a few side by side, and mixed again."""
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
    """Examples in memory: every worker has all of them, mixed anew for each epoch."""

    features: Any
    labels: Any

    def __post_init__(self) -> None:
        if len(self.features) != len(self.labels):
            raise SystemExit(
                f"{counted(len(self.features), 'feature')} and {counted(len(self.labels), 'label')}: "
                "give one label for each feature, in the same order"
            )

    @property
    def count(self) -> int:
        return len(self.labels)

    @property
    def folder(self) -> None:
        return None

    def batches(self, share: Share, *, seed: int, first_step: int, per_epoch: int) -> Any:
        """The features and labels of this process's share."""
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
    """Nothing here is tuned while it runs. The thread that would do it may miss that its iterator is gone, and whoever
    let go of that waits until it looks again: for up to a minute where the processors are busy (TensorFlow 2.21,
    core/framework/model.cc: woken before what it is to look at is written)."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _pieces(in_order: Callable[[Any], Any], share: Share, *, first_step: int, per_epoch: int) -> Any:
    """The share's pieces of every batch from `first_step` on; `in_order(epoch)` answers the batches of one epoch."""
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
    """How many records a TFRecord file holds, from its framing alone. Raises SystemExit when it is cut short."""
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
        raise SystemExit(f"{path} is no whole TFRecord file: it ends inside record {count}")
    return count
