"""Write handwritten digits in MNIST's format, for machines that cannot fetch MNIST itself.

    python -m training.programs.datasets.mnist FOLDER

creates the four IDX files with their original names from scikit-learn's 1,797 real scans. They are NOT MNIST's images:
each scan of 8 x 8 is enlarged to 20 x 20 and put in the middle of 28 x 28, like MNIST's digits. A fifth of the scans is
held out for the test. Every other scan occurs once unchanged, and four times shifted by up to three pixels. The files
are the same every time. With --tfrecords, the digits are written as TFRecord shards to FOLDER/train and FOLDER/test.
It needs scikit-learn, not TensorFlow.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from training.programs.arguments import parser_of
from training.programs.datasets import idx
from training.programs.datasets.digits import example, tfrecord

SEED = 28
TEST_SHARE = 0.2
SHIFTED_COPIES = 4
FARTHEST_SHIFT = 3
SIDE = 28
DIGIT_SIDE = 20
SCAN_SIDE = 8
SCAN_BRIGHTEST = 16.0
TRAIN_SHARDS = 4


@dataclass(frozen=True, slots=True)
class Part:
    """`images`: uint8 (count, 28, 28); `labels`: uint8 (count,)."""

    images: Any
    labels: Any


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tfrecords", action="store_true", help="write TFRecord shards instead of IDX files")
    arguments = parser.parse_args()
    write = write_tfrecords if arguments.tfrecords else write_idx
    for path in write(arguments.folder):
        print(path)


def write_idx(folder: Path) -> list[Path]:
    """Write the four files. Return their paths."""
    written = []
    for name, part in parts().items():
        for path, array in (
            (folder / f"{name}-images-idx3-ubyte.gz", part.images),
            (folder / f"{name}-labels-idx1-ubyte.gz", part.labels),
        ):
            idx.write(path, array)
            written.append(path)
    return written


def write_tfrecords(folder: Path) -> list[Path]:
    """Write train/ in four shards and test/ in one. A record is {image: 784 bytes, label: int64}. Return their
    paths."""
    made = parts()
    written = []
    for name, part, shards in (("train", made[idx.TRAIN], TRAIN_SHARDS), ("test", made[idx.TEST], 1)):
        for index, chosen in enumerate(np.array_split(np.arange(len(part.labels)), shards)):
            path = folder / name / f"mnist-{index:05d}-of-{shards:05d}.tfrecord"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(
                tfrecord(example(part.images[one].tobytes(), int(part.labels[one])) for one in chosen)
            )
            written.append(path)
    return written


def parts() -> dict[str, Part]:
    """Return the digits by the names of MNIST's parts. No scan, shifted or not, is in both parts."""
    scans = load_digits()
    chance = np.random.default_rng(SEED)
    order = chance.permutation(len(scans.target))
    held_out, rest = np.split(order, [round(len(order) * TEST_SHARE)])
    images, labels = enlarge(scans.images), scans.target.astype(np.uint8)
    copies = [images[rest], *(shift(images[rest], chance) for _ in range(SHIFTED_COPIES))]
    mixed = chance.permutation(len(rest) * len(copies))
    train = Part(np.concatenate(copies)[mixed], np.tile(labels[rest], len(copies))[mixed])
    return {idx.TRAIN: train, idx.TEST: Part(images[held_out], labels[held_out])}


def enlarge(scans: Any) -> Any:
    """Enlarge (count, 8, 8) with values up to 16 to uint8 (count, 28, 28): bilinear, with a black margin."""
    weights = bilinear(SCAN_SIDE, DIGIT_SIDE)
    grown = np.rint(weights @ scans @ weights.T * (idx.BRIGHTEST / SCAN_BRIGHTEST)).astype(np.uint8)
    margin = (SIDE - DIGIT_SIDE) // 2
    return np.pad(grown, ((0, 0), (margin, margin), (margin, margin)))


def bilinear(small: int, large: int) -> Any:
    """Return a (large, small) matrix that mixes each of `large` points from its two neighbors among `small`."""
    middles = np.clip((np.arange(large) + 0.5) * small / large - 0.5, 0, small - 1)
    return np.maximum(0.0, 1.0 - np.abs(middles[:, None] - np.arange(small)))


def shift(images: Any, chance: np.random.Generator) -> Any:
    """Shift each image by a random number of pixels in each direction. The margin is wider, so nothing is cut off."""
    moves = chance.integers(-FARTHEST_SHIFT, FARTHEST_SHIFT, size=(len(images), 2), endpoint=True)
    return np.stack(list(_move(images, moves)))


def _move(images: Any, moves: Any) -> Iterable[Any]:
    for image, (down, right) in zip(images, moves, strict=True):
        yield np.roll(image, (int(down), int(right)), axis=(0, 1))


if __name__ == "__main__":
    main()
