"""Multiply two matrices on chosen devices, check the product, and measure the time.

For each device, the program prints where TensorFlow actually placed the product. The product is compared with numpy's
in float64. Its error, relative to the product of the absolute values, may be at most 4 (u + v sqrt(k)): u is the
rounding of one number of the data type, v the rounding of the sums (float32's, or float64's), and k the number of
products in a sum. The exit code is 1 if a product is wrong. With --every-gpu, each GPU of this host is used, and there
must be one."""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from training.programs import devices
from training.programs.arguments import SHOWN, at_least, parser_of
from trainyard.runtime.environment import Environment
from trainyard.runtime.metrics import write_metrics

CHECKED_ROWS = 1024
"""The largest number of rows to check. Larger products are checked by a sample, because numpy uses only CPUs."""
SINGLE_ROUNDING, DOUBLE_ROUNDING = 2.0**-24, 2.0**-53


@dataclass(frozen=True, slots=True)
class Precision:
    """A data type."""

    name: str
    """TensorFlow's name."""
    rounding: float
    """The largest relative error of one number."""
    sums: float = SINGLE_ROUNDING
    tensor_float: bool = False

    def tolerance(self, summed: int) -> float:
        return float(4 * (self.rounding + self.sums * summed**0.5))


PRECISIONS = {
    "float16": Precision("float16", 2.0**-11),
    "bfloat16": Precision("bfloat16", 2.0**-8),
    "tf32": Precision("float32", 2.0**-11, tensor_float=True),
    "float32": Precision("float32", SINGLE_ROUNDING),
    "float64": Precision("float64", DOUBLE_ROUNDING, sums=DOUBLE_ROUNDING),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of the factors: (rows, summed) times (summed, columns)."""

    rows: int
    summed: int
    columns: int

    @staticmethod
    def parse(text: str) -> "Shape":
        """`1024` is square; `512x256x128` is (512, 256) times (256, 128)."""
        sides = text.lower().split("x")
        if len(sides) not in (1, 3) or not all(side.isdecimal() and int(side) for side in sides):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a size: type one number (1024), or three (512x256x128) for 512x256 times 256x128"
            )
        rows, summed, columns = map(int, sides if len(sides) == 3 else sides * 3)
        return Shape(rows, summed, columns)

    @property
    def operations(self) -> int:
        """The number of multiplications and additions of one product."""
        return 2 * self.rows * self.summed * self.columns

    def __str__(self) -> str:
        return f"{self.rows}x{self.summed} times {self.summed}x{self.columns}"


@dataclass(frozen=True, slots=True)
class Factors:
    """Two matrices as numpy arrays in float64, with values that the data type can represent."""

    left: Any
    right: Any

    @staticmethod
    def draw_values(shape: Shape, precision: Precision, seed: int) -> "Factors":
        """Draw values evenly from -1 to 1."""
        chance = np.random.default_rng(seed)

        def draw(rows: int, columns: int) -> Any:
            return round_values(chance.uniform(-1, 1, (rows, columns)), precision)

        return Factors(draw(shape.rows, shape.summed), draw(shape.summed, shape.columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result on one device. `error` and `tolerance` are relative to the product of the absolute values."""

    device: str
    placed: str
    median_seconds: float
    best_seconds: float
    gigaflops: float
    error: float
    tolerance: float
    right: bool

    def __str__(self) -> str:
        return (
            f"{self.device}: median {1e3 * self.median_seconds:.3f} ms, best {1e3 * self.best_seconds:.3f} ms, "
            f"{self.gigaflops:.1f} GFLOP/s; largest error {self.error:.1e}, tolerance {self.tolerance:.1e}: "
            + ("right" if self.right else "WRONG")
        )


def main() -> None:
    arguments = parse_arguments()
    here = devices.present()
    print(f"devices of this host: {', '.join(here)}", flush=True)
    wanted = every_gpu(here) if arguments.every_gpu else devices.choose_devices(arguments.device, here)
    precision = PRECISIONS[arguments.dtype]
    tf.config.experimental.enable_tensor_float_32_execution(precision.tensor_float)
    factors = Factors.draw_values(arguments.size, precision, arguments.seed)
    print(f"{arguments.size} in {arguments.dtype}, {arguments.repeats} times", flush=True)
    verdicts = [
        measure(device, factors, arguments.size, precision, arguments.warm_up, arguments.repeats)
        for device in wanted
    ]
    write_metrics(
        Environment.from_os().metrics,
        {
            "steps": len(verdicts),
            "rows": arguments.size.rows,
            "summed": arguments.size.summed,
            "columns": arguments.size.columns,
            "dtype": arguments.dtype,
            "devices": [asdict(verdict) for verdict in verdicts],
        },
    )
    wrong = [verdict.device for verdict in verdicts if not verdict.right]
    if wrong:
        raise SystemExit(
            f"the product is wrong on {', '.join(wrong)}: its error is above the tolerance. "
            "The device, its driver, or its library is faulty; do not train on it"
        )
    print(f"Products right on {len(verdicts)} of {len(verdicts)} devices", flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--size", type=Shape.parse, default="1024", help=f"1024, or 512x256x128 {SHOWN}")
    parser.add_argument("--dtype", choices=PRECISIONS, default="float32", help=SHOWN)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--device",
        default=devices.AUTO,
        help="one or several devices: /GPU:0,/CPU:0; auto: every GPU, or the CPU without a GPU (default)",
    )
    where.add_argument("--every-gpu", action="store_true", help="use each GPU; fail if there is none")
    parser.add_argument("--repeats", type=at_least(1), default=10, help=f"timed products {SHOWN}")
    parser.add_argument(
        "--warm-up", type=at_least(0), default=2, help=f"products before the timed ones {SHOWN}"
    )
    parser.add_argument("--seed", type=int, default=1, help=f"seed of the factors {SHOWN}")
    return parser.parse_args()


def every_gpu(here: tuple[str, ...]) -> tuple[str, ...]:
    found = devices.find_kind("GPU", here)
    if not found:
        raise SystemExit(
            f"TensorFlow sees no GPU on this host, only {', '.join(here)}: check the driver, the instance type, and "
            "the CUDA packages; see nvidia-smi"
        )
    return found


def measure(
    device: str, factors: Factors, shape: Shape, precision: Precision, warm_up: int, repeats: int
) -> Verdict:
    """Multiply on the device. Check the placement, the time, and the product."""
    with tf.device(device):
        left, right = (tf.constant(factor, precision.name) for factor in (factors.left, factors.right))
        product = tf.linalg.matmul(left, right)
        for _ in range(warm_up):
            tf.linalg.matmul(left, right)
        seconds = [measure_seconds(lambda: tf.linalg.matmul(left, right)) for _ in range(repeats)]
    print(f"{device}: product placed on {product.device}", flush=True)
    error, tolerance = largest_error(product, factors), precision.tolerance(shape.summed)
    median = statistics.median(seconds)
    verdict = Verdict(
        device=device,
        placed=product.device,
        median_seconds=median,
        best_seconds=min(seconds),
        gigaflops=shape.operations / median / 1e9,
        error=error,
        tolerance=tolerance,
        right=error <= tolerance,
    )
    print(verdict, flush=True)
    return verdict


def measure_seconds(compute: Callable[[], Any]) -> float:
    """Return the seconds until the device has finished: a call of an operation on a GPU returns before its end."""
    tf.test.experimental.sync_devices()
    begun = time.perf_counter()
    compute()
    tf.test.experimental.sync_devices()
    return time.perf_counter() - begun


def largest_error(product: Any, factors: Factors) -> float:
    """Return the largest error in up to `CHECKED_ROWS` rows of the product; infinite if an element is not a number."""
    rows = np.unique(np.linspace(0, len(factors.left) - 1, CHECKED_ROWS).round().astype(int))
    left = factors.left[rows]
    got = tf.cast(product, tf.float64).numpy()[rows]
    scale = np.abs(left) @ np.abs(factors.right)
    error = np.abs(got - left @ factors.right) / np.maximum(scale, np.finfo(np.float64).tiny)
    return float(np.where(np.isfinite(error), error, np.inf).max())


def round_values(values: Any, precision: Precision) -> Any:
    with tf.device("/CPU:0"):
        return tf.cast(tf.cast(values, precision.name), tf.float64).numpy()


if __name__ == "__main__":
    main()
