"""TFRecord shards as batches whose order is a function of (seed, epoch, step), whatever the number of workers.

The unit is the *global* batch: every worker reads the same order and takes its share of each batch, so a run that
goes on with more or fewer workers goes on with the same batches. A worker reads all records but parses only its own.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

SHUFFLE_BUFFER = 10_000
READ_SIDE_BY_SIDE = 4


@dataclass(frozen=True, slots=True)
class Records:
    """`parse` turns one serialised record into (features, label); `files` are TFRecord shards."""

    files: tuple[str, ...]
    count: int
    parse: Callable[[Any], Any]

    @staticmethod
    def under(folder: Path, parse: Callable[[Any], Any]) -> "Records":
        """Every *.tfrecord under `folder`."""
        files = sorted(folder.rglob("*.tfrecord"))
        if not files:
            raise SystemExit(f"there is no *.tfrecord under {folder}")
        return Records(tuple(map(str, files)), sum(map(count_records, files)), parse)

    def steps_per_epoch(self, global_batch_size: int) -> int:
        """Whole global batches; what is left over rests until the next epoch mixes anew."""
        if self.count < global_batch_size:
            raise SystemExit(
                f"the global batch size {global_batch_size} is larger than the {self.count} training records: "
                "make it smaller"
            )
        return self.count // global_batch_size

    def shares(
        self, *, seed: int, global_batch_size: int, first_step: int, epochs: int, replicas: range, of: int
    ) -> Any:
        """The batches of this process's `replicas` (out of `of`), from `first_step` on: one element a step each."""
        per_epoch = self.steps_per_epoch(global_batch_size)
        first_epoch, done = divmod(first_step, per_epoch)
        bounds = split(global_batch_size, of)
        lower, upper = (
            tf.constant([bounds[replica + side] for replica in replicas], tf.int64) for side in (0, 1)
        )

        def epoch_batches(epoch: Any) -> Any:
            batches = self._in_order(seed, epoch).batch(global_batch_size, drop_remainder=True)
            return batches.skip(tf.where(epoch == first_epoch, tf.cast(done, tf.int64), 0))

        def pieces(batch: Any) -> Any:
            own = tf.data.Dataset.from_tensor_slices((lower, upper))
            return own.map(lambda start, end: batch[start:end])

        epochs_left = tf.data.Dataset.range(first_epoch, epochs)
        own = epochs_left.flat_map(epoch_batches).flat_map(pieces)
        # One record after the other: the records are small, and threads that wait for each other cost more.
        return own.map(lambda piece: self._parse_all(piece), num_parallel_calls=1).prefetch(2)

    def in_file_order(self, batch_size: int) -> Any:
        """Everything once, for evaluation."""
        return tf.data.TFRecordDataset(list(self.files)).batch(batch_size).map(self._parse_all)

    def _in_order(self, seed: int, epoch: Any) -> Any:
        """The serialised records of one epoch: shards mixed, read a few side by side, and mixed again."""
        mixed = tf.random.experimental.stateless_shuffle(
            tf.constant(self.files), seed=tf.stack([tf.cast(seed, tf.int64), epoch])
        )
        records = tf.data.Dataset.from_tensor_slices(mixed).interleave(
            tf.data.TFRecordDataset, cycle_length=READ_SIDE_BY_SIDE, block_length=16
        )
        buffer = min(self.count, SHUFFLE_BUFFER)
        return records.shuffle(buffer, seed=epoch * 1_000_003 + seed, reshuffle_each_iteration=False)

    def _parse_all(self, piece: Any) -> Any:
        return self.parse(piece)


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
