"""Command lines of the reference programs."""

import argparse
from collections.abc import Callable
from typing import Any

SHOWN = "(default: %(default)s)"


def training_parser(
    description: str | None,
    *,
    epochs: int,
    global_batch_size: int,
    learning_rate: float,
    checkpoint_every: int | None = None,
) -> argparse.ArgumentParser:
    """Return a parser with the arguments of every program that trains. Without `checkpoint_every`, the job decides."""
    made = parser_of(description)
    made.add_argument("--epochs", type=at_least(1), default=epochs, help=SHOWN)
    made.add_argument("--global-batch-size", type=at_least(1), default=global_batch_size, help=SHOWN)
    made.add_argument("--learning-rate", type=float, default=learning_rate, help=SHOWN)
    made.add_argument("--seed", type=int, default=1, help=SHOWN)
    made.add_argument(
        "--checkpoint-every",
        type=at_least(0),
        default=checkpoint_every,
        help=f"steps between checkpoints; 0: only by time (default: {checkpoint_every or 'as in the job'})",
    )
    return made


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help shows the description with its line breaks."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_step_delay(to: argparse.ArgumentParser) -> None:
    to.add_argument("--step-delay", type=float, default=0.0, help=f"pause after each step in seconds {SHOWN}")


def loop_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `runtime.loop` and `runtime.plan`."""
    names = ("epochs", "global_batch_size", "seed", "checkpoint_every", "step_delay")
    return {name: getattr(arguments, name) for name in names}


def at_least(least: int) -> Callable[[str], int]:
    """Return an argument's type: a whole number, at least `least`."""

    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return whole
