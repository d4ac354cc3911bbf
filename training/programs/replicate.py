"""Split one matrix over the devices of this host, multiply the parts side by side, and join the products.

The joined product must equal the product of the whole matrix on one device, within --tolerance times its largest
element. Libraries may sum in another order for another number of rows, so bitwise equality is not guaranteed; the
program prints what it found. Without a GPU, parts of the CPU stand in. The exit code is 1 if the products differ by
more."""

import argparse
from typing import Any

import numpy as np
import tensorflow as tf

from training.programs import devices
from training.programs.arguments import SHOWN, at_least, parser_of
from training.programs.matmul import measure_seconds
from trainyard.runtime.data import split
from trainyard.runtime.environment import Environment
from trainyard.runtime.metrics import write_metrics

TOLERANCE = 1e-5


def main() -> None:
    arguments = parse_arguments()
    here = devices.present(stand_ins=arguments.stand_ins)
    print(f"devices of this host: {', '.join(here)}", flush=True)
    used = devices.choose_devices(arguments.devices, here)
    if arguments.rows < len(used):
        raise SystemExit(
            f"{arguments.rows} rows cannot be split over {len(used)} devices: ask for more rows or fewer devices"
        )
    tf.config.experimental.enable_tensor_float_32_execution(False)
    left, right = factors(arguments.rows, arguments.columns, arguments.seed)
    for part in products(left, right, used):
        print(f"{part.shape[0]} rows multiplied on {part.device}", flush=True)
    joined, unsplit = split_product(left, right, used), whole_product(left, right, used[0])
    seconds = {
        "split_seconds": measure_seconds(lambda: split_product(left, right, used)),
        "unsplit_seconds": measure_seconds(lambda: whole_product(left, right, used[0])),
    }
    difference = farthest(joined, unsplit)
    equal = bool(np.array_equal(joined.numpy(), unsplit.numpy()))
    answer = "bitwise equal" if equal else f"different by {difference:.1e} of the largest element"
    print(f"joined product and unsplit product are {answer}", flush=True)
    print(", ".join(f"{name} {value:.4f}" for name, value in seconds.items()), flush=True)
    write_metrics(
        Environment.from_os().metrics,
        {
            "steps": 1,
            "devices": list(used),
            "rows": arguments.rows,
            "columns": arguments.columns,
            "bitwise": equal,
            "difference": difference,
            "tolerance": arguments.tolerance,
            **seconds,
        },
    )
    if not difference <= arguments.tolerance:
        raise SystemExit(
            f"the joined product differs from the unsplit one by {difference:.1e} of its largest element, "
            f"more than {arguments.tolerance:.1e}: a device, its driver, or its library is faulty"
        )


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=at_least(1), default=1024, help=f"rows that are split {SHOWN}")
    parser.add_argument("--columns", type=at_least(1), default=512, help=SHOWN)
    parser.add_argument(
        "--devices",
        default=devices.AUTO,
        help="/GPU:0,/GPU:1 ...; auto: every GPU, or the stand-ins (default)",
    )
    parser.add_argument(
        "--stand-ins", type=at_least(1), default=2, help="parts of the CPU if there is no GPU (default: 2)"
    )
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help=SHOWN)
    parser.add_argument("--seed", type=int, default=1, help=f"seed of the factors {SHOWN}")
    return parser.parse_args()


def factors(rows: int, columns: int, seed: int) -> tuple[Any, Any]:
    """Return (rows, columns) and (columns, columns) in float32, drawn evenly from -1 to 1."""
    chance = np.random.default_rng(seed)
    return tuple(
        tf.constant(chance.uniform(-1, 1, (count, columns)), tf.float32) for count in (rows, columns)
    )


def products(left: Any, right: Any, used: tuple[str, ...]) -> list[Any]:
    """Split the rows of `left` as evenly as possible, and multiply each part on its device.

    A call returns while its GPU still computes, so the devices work in parallel.
    """
    bounds = split(left.shape[0], len(used))
    parts = []
    for device, start, end in zip(used, bounds[:-1], bounds[1:], strict=True):
        with tf.device(device):
            parts.append(tf.linalg.matmul(left[start:end], right))
    return parts


def split_product(left: Any, right: Any, used: tuple[str, ...]) -> Any:
    """Return the joined products of the parts."""
    return tf.concat(products(left, right, used), axis=0)


def whole_product(left: Any, right: Any, device: str) -> Any:
    with tf.device(device):
        return tf.linalg.matmul(left, right)


def farthest(one: Any, other: Any) -> float:
    """Return the largest difference of two elements, relative to the largest element; infinite if one is not a
    number."""
    one, other = (matrix.numpy().astype(np.float64) for matrix in (one, other))
    difference = np.abs(one - other).max() / np.abs(other).max()
    return float(difference) if np.isfinite(difference) else float("inf")


if __name__ == "__main__":
    main()
