"""The files of `trainyard init`: a job file, a program, and a little generated data."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

from trainyard.client.errors import FileUnreadable
from trainyard.command_line import command_line

COUNT = 2000
DIGITS = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00010 00100 01000 11111",
    "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)
"""Each digit in 7 rows of 5 dots."""
SCHEMA = ".trainyard/job.schema.json"
"""The schema for editors, which complete and check the job file."""


def write(example: str, folder: Path) -> list[Path]:
    """Write the files, and return their paths, the job file first.

    Raises FileUnreadable before it writes anything if one of the files exists.
    """
    here = resources.files(__package__) / example
    made: dict[str, str] = {
        "job.yaml": (here / "job.yaml").read_text(),
        "src/train.py": (here / "src" / "train.py").read_text(),
        SCHEMA: (resources.files("trainyard") / "job.schema.json").read_text(),
        "data/train.csv": "".join(f"{line}\n" for line in DATA[example](random.Random(1))),
    }
    files = {folder / name: text for name, text in made.items()}
    if taken := [str(file) for file in files if file.exists()]:
        what = f"{folder} already contains {', '.join(taken)}"
        raise FileUnreadable(
            what, "nothing was written", f"name another folder: {command_line('init', 'FOLDER')}"
        )
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return [*files]


def _line(chance: random.Random) -> Iterator[str]:
    """y = 3 x + 2, and some noise."""
    yield "x,y"
    for _ in range(COUNT):
        x = chance.uniform(-1, 1)
        yield f"{x:.4f},{3 * x + 2 + chance.gauss(0, 0.1):.4f}"


def _digits(chance: random.Random) -> Iterator[str]:
    """A label and 8 x 8 dots from 0 to 16: a digit, moved a little, drawn by a hand that is not steady."""
    for _ in range(COUNT):
        label = chance.randrange(10)
        yield ",".join(map(str, [label, *_drawn(label, chance)]))


def _drawn(label: int, chance: random.Random) -> list[int]:
    shape = DIGITS[label].replace(" ", "")
    right, down = chance.randint(0, 3), chance.randint(0, 1)
    dots = [0] * 64
    for place, dot in enumerate(shape):
        row, column = divmod(place, 5)
        ink = 15 * int(dot) + chance.gauss(0, 3)
        dots[(row + down) * 8 + column + right] = min(max(round(ink), 0), 16)
    return dots


DATA: dict[str, Callable[[random.Random], Iterator[str]]] = {"line": _line, "digits": _digits}
