"""Patterns of RE2 for the position of a training in a program's output.

The time of RE2 grows only with the length of a line.
"""

from dataclasses import dataclass
from typing import Any

import re2

THOUSANDS = r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?"
NUMBER = rf"[-+]?(?:{THOUSANDS}|\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?)"
WRAPPING = r"""(?:(?:\w+\.)?(?:tensor|array|float\d*)\(\s*)?['"]?"""
"""tensor(0.5, grad_fn=...), np.float32(0.5), Array(0.5, dtype=float32), '0.5'."""
PLAIN_NUMBER = r"-?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|nan|inf\b)"
COUNT = r"\d[\d,_]*"


def pattern(text: str) -> Any:
    """Compile for RE2, regardless of case."""
    return re2.compile(f"(?i){text}")


VALUE = pattern(
    r"(?P<what>loss|cost|accuracy|acc)(?:_(?P<of>g|gen|generator|d|disc|discriminator))?"
    r"(?:[_/](?:step|epoch|avg|mean|total|train))?"
    r"(?:\s*\((?:train|training|avg|total|for (?:one|1|the) batch|(?:epoch|step) \d+)\))?"
    r"(?: over epoch| (?:at|after|for|of|in) (?:step|epoch|iter|iteration|batch) \d+)?"
    rf"""['"]?\s*(?:[:=]|->|\bis\b)?\s*{WRAPPING}(?P<number>{NUMBER})(?P<unit>%?)(?:[^\w.%/:]|\.\D|\.?$)"""
)
WORDS = pattern(r"[a-z]+")
OTHER = pattern(
    rf"(?P<name>[a-z_][\w./@-]{{0,62}})(?:['\"]?\s*[:=]\s*(?P<number>{PLAIN_NUMBER})"
    rf"|\s+(?P<metered>{PLAIN_NUMBER})\s*\(\s*{PLAIN_NUMBER}\s*\))"
)
"""A name and a number that belongs to it. `metered`: the meters of PyTorch's examples print a value and its mean, as in
`Acc@1  40.62 ( 41.67)`."""
RATIO = pattern(r"acc(?:uracy)?['\"]?\s*[:=]?\s*(?P<right>\d+)\s*/\s*(?P<all>\d+)")
"""The accuracy of an evaluation, as in `Accuracy: 9816/10000 (98%)`."""
NAME = pattern(r"[\w./-]*$")
OPENING = "[({<'\""
"""Characters that begin a part of a line."""
EPOCH = pattern(
    r"""(?:^|[^\w/])(?:train(?:ing)?[_ ])?ep(?:och)?(?:\(train\))?['"]?\s*[:=#|]?\s*[\[(]?\s*['"]?"""
    r"(?P<epoch>\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(?P<epochs>\d+))?"
)
HEADLINE = pattern(
    r"^\W*(?:start(?:ing)? (?:of )?|train(?:ing)?\s+)?epoch\s*[:#]?\s*"
    r"\[?(?P<epoch>\d+)\]?(?:\s*(?:/|of)\s*(?P<epochs>\d+))?\W*$"
)
"""A line that only names the epoch that begins, as in Keras and PyTorch's tutorials."""
ASIDE_HEADLINE = pattern(r"^\W*(?:test|validation|eval\w*)(?: [a-z]+){0,3}\s*:?\W*$")
"""A line after which numbers of an evaluation follow, until a line with a position of the training."""
EPOCH_OVER = pattern(
    r"^\W*(?:time (?:taken )?for |finished |completed |end of )?epoch\s*[:#]?\s*"
    r"\[?(?P<epoch>\d+)\]?(?:\s*(?:/|of)\s*(?P<epochs>\d+))?\]?[\s:,-]*(?:is|took|takes|done|finished|completed|in)\s"
    r"[^=]*?\d+(?:\.\d+)?\s*(?:s|secs?|seconds|m|min|minutes)\.?\W*$"
)
"""A line that only gives the duration of an epoch, as in TensorFlow's tutorials of GANs."""
YOLO = pattern(
    rf"^\s*(?P<epoch>\d+)/\d+\s+[\d.]+[MG]B?\s[^|%]*?:\s*\d+%\|?[^|\d]*\|?\s*(?P<at>{COUNT})/(?P<of>{COUNT})\s"
)
"""A row of YOLO's table with its bar. Its losses are parts of a loss that is not printed."""
RICH = pattern(
    rf"^\s*epoch (?P<epoch>\d+)/(?P<last>\d+|-2)\s+[━╸╺\s]+(?P<at>{COUNT})/(?P<of>{COUNT})\s+\d+:\d\d:\d\d\s*•"
)
"""Lightning's bar of rich, which numbers epochs from 0. It is as wide as a terminal, so its loss may follow in a line
of its own."""
BEHIND_RICH = pattern(r"^ {16,}\S")
BARE_BAR = pattern(rf"^\s*\d+%\|[^|]*\|\s*(?P<at>{COUNT})/(?P<of>{COUNT})\s*\[")
"""tqdm's bar without a name or a loss, which Hugging Face's Trainer draws between the lines of its losses."""
TRAINERS = pattern(r"^\s*\{.*'grad_norm'")
"""A dictionary of Hugging Face's Trainer, whose epoch is sometimes a whole number."""
TRAINERS_EPOCHS = pattern(rf"\bNum Epochs\s*=\s*(?P<number>{COUNT})\s*$")
TRAINERS_STEPS = pattern(rf"\bTotal optimization steps\s*=\s*(?P<number>{COUNT})\s*$")
"""Lines that the Trainer logs at its start at log level info. They convert a fraction of an epoch to a step."""
PACE = pattern(
    r"(?P<time>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s)/(?:step|it|iter)\b|(?P<pace>\d+(?:\.\d+)?)\s*it/s"
)
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
NOT_STEPS = frozenset(
    {"max", "total", "num", "warmup", "every", "per", "save", "log", "eval", "of", "logging"}
)
"""Words before `step` that make a number a setting."""
AT_AND_OF = rf"(?P<at>{COUNT})\s*(?:/|of)\s*(?P<of>{COUNT}|unknown|\?)"


@dataclass(frozen=True, slots=True)
class Position:
    """One form of a printed position."""

    name: str
    pattern: Any
    in_epoch: bool
    """True if `at` counts within the epoch."""
    from_zero: bool = False
    """True if these programs number their epochs from 0, which a program that resumes at epoch 5 does not show."""


POSITIONS = (
    Position("bar", pattern(rf"^\s*{AT_AND_OF}\s+(?:━|\[[=>.]|- \d|\d+(?:s|ms|us)\s)"), in_epoch=True),
    Position(
        "tqdm",
        pattern(rf"^epoch \d+:\s*\d+%\|[^|]*\|\s*{AT_AND_OF}\s*\[.*\bv_num="),
        in_epoch=True,
        from_zero=True,
    ),
    Position("tqdm", pattern(rf"\d+%\|[^|]*\|\s*{AT_AND_OF}\s*\["), in_epoch=True),
    Position("tqdm", pattern(rf"(?:^|[\s:])(?P<at>{COUNT})it \[\d"), in_epoch=True),
    Position(
        "epoch and step",
        pattern(rf"^\s*\[(?P<epoch>\d+)/(?P<epochs>\d+)\]\s*\[\s*{AT_AND_OF}\s*\]"),
        in_epoch=True,
    ),
    Position(
        "epoch and step",
        pattern(rf"^epoch: \[\d+\]\s*\[\s*{AT_AND_OF}\s*\]"),
        in_epoch=True,
        from_zero=True,
    ),
    Position(
        "epoch and step",
        pattern(
            r"epoch(?:\(train\))?\s*[:#=]?\s*[\[(]?\s*\d+(?:\s*/\s*\d+)?[\])\s:,|\[(-]+"
            rf"(?:(?:step|iter|iteration|batch)\s*[:#=]?)?\s*[\[(]?\s*{AT_AND_OF}"
        ),
        in_epoch=True,
    ),
    Position(
        "epoch and step",
        pattern(rf"^train:\s*(?P<epoch>\d+)\s*\[\s*{AT_AND_OF}"),
        in_epoch=True,
        from_zero=True,
    ),
    Position("epoch and step", pattern(rf"^\s*\[(?P<epoch>\d+),\s*(?P<at>{COUNT})\]\s"), in_epoch=True),
    Position(
        "step",
        pattern(
            r"(?:^|[^\w/])(?:(?P<before>[a-z]+)[_ ])?"
            r"(?:steps?|iters?|iteration|round|episode|num_updates|it)\b(?:\(train\))?"
            rf"""['"]?\s*[:=#\[(]*\s*['"]?(?P<at>{COUNT})(?:\s*(?:/|of)\s*(?P<of>{COUNT}))?(?:[^\w.%]|\.\D|\.?$)"""
        ),
        in_epoch=False,
    ),
    Position("round", pattern(rf"^\[(?P<at>{COUNT})\]\s"), in_epoch=False),
    Position("batch", pattern(rf"\bbatch(?:es)?\s*[:=#\[(]*\s*{AT_AND_OF}"), in_epoch=True),
    Position("of", pattern(rf"^\s*[\[(]\s*{AT_AND_OF}\s*[\])]"), in_epoch=True),
    Position("of", pattern(rf"[\[(]\s*{AT_AND_OF}\s*[\])]\s*$"), in_epoch=True),
)
