"""Write scikit-learn's scans of handwritten digits (1,797 real ones, 8 x 8) as TFRecord shards.

    python -m training.programs.datasets.digits FOLDER

creates FOLDER/train and FOLDER/test with a fixed split: the same files every time. It needs scikit-learn, not
TensorFlow.
"""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from training.programs.arguments import parser_of

SPLIT_SEED = 20
TEST_SHARE = 0.2
TRAIN_SHARDS = 4


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    for path, count in write_shards(parser.parse_args().folder).items():
        print(f"{path}: {count} scans")


def write_shards(folder: Path) -> dict[Path, int]:
    """Write the shards. Return their paths with the number of scans in each."""
    scans = load_digits()
    images, labels = scans.images.astype(np.uint8), scans.target
    order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    test_size = round(len(order) * TEST_SHARE)
    parts = {"test": [order[:test_size]], "train": np.array_split(order[test_size:], TRAIN_SHARDS)}
    written = {}
    for name, shards in parts.items():
        for index, chosen in enumerate(shards):
            path = folder / name / f"digits-{index:05d}-of-{len(shards):05d}.tfrecord"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tfrecord(example(images[one].tobytes(), int(labels[one])) for one in chosen))
            written[path] = len(chosen)
    return written


def example(image: bytes, label: int) -> bytes:
    """Return a serialized tf.train.Example {image: bytes, label: int64}. This code does not need TensorFlow."""
    as_bytes = _field(1, _field(1, image))  # Feature.bytes_list.value
    as_number = _field(3, _field(1, _varint(label)))  # Feature.int64_list.value, packed
    entries = ((b"image", as_bytes), (b"label", as_number))
    return _field(1, b"".join(_field(1, _field(1, key) + _field(2, feature)) for key, feature in entries))


def tfrecord(records: Iterable[bytes]) -> bytes:
    """Return records in TFRecord's format: length, its checksum, data, its checksum."""
    framed = bytearray()
    for record in records:
        length = struct.pack("<Q", len(record))
        framed += length + masked_checksum(length) + record + masked_checksum(record)
    return bytes(framed)


def masked_checksum(data: bytes) -> bytes:
    """Return the CRC-32C, rotated and offset as TFRecord requires."""
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ CHECKSUMS[(value ^ byte) & 0xFF]
    value ^= 0xFFFFFFFF
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _checksum_table() -> Sequence[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CHECKSUMS = _checksum_table()


def _field(number: int, payload: bytes) -> bytes:
    """Return a length-delimited protobuf field."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


if __name__ == "__main__":
    main()
