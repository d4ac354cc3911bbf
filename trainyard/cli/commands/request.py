"""Write a request for predictions with rows of a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.models import OfVersion, Signature
from trainyard.cli.options import Options


@dataclass(frozen=True)
class Rows:
    """A range of rows."""

    first: int
    end: int
    """The row behind the last one."""


def parse_rows(text: str | Rows) -> Rows:
    """Parse a range such as `0:3`, or one row. Typer passes a default that is parsed already."""
    if isinstance(text, Rows):
        return text
    first, _, end = text.partition(":")
    if not (first or "0").isdecimal() or not (end or "1").isdecimal():
        raise typer.BadParameter(f"{text}: wanted a range of rows, such as 0:3, or one row, such as 7")
    found = Rows(int(first or 0), int(end) if end else int(first or 0) + 1)
    if found.end <= found.first:
        raise typer.BadParameter(f"{text} has no rows; the second number is behind the last row")
    return found


FIRST_ROWS = Rows(0, 3)


@command("trainyard request digits --from test.npz --rows 0:3 > request.json")
def request(
    options: Options,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.")],
    source: Annotated[
        str,
        typer.Option("--from", metavar="FILE", help="File with arrays: FILE.npz or s3://BUCKET/FILE.npz."),
    ],
    rows: Annotated[
        Rows,
        typer.Option(
            "--rows", metavar="FIRST:END", parser=parse_rows, help="Rows of the arrays. END is not included."
        ),
    ] = FIRST_ROWS,
    divide: Annotated[
        float,
        typer.Option("--divide", metavar="NUMBER", help="Divide the values of float inputs, such as by 255."),
    ] = 1.0,
    version: OfVersion = None,
    signature: Signature = None,
) -> None:
    """Write a request for predictions with rows of a file.

    The rows have the shapes of the signature's inputs. An array belongs to the input of its name, or to the only input
    whose rows have as many values. `predict`, curl and TensorFlow Serving accept the request.
    """
    from trainyard.cli.output import terminal
    from trainyard.client import predictions

    yard = options.find()
    name, types = predictions.find_signature(yard.model(model).find_version(version), model, signature)
    found = predictions.read_arrays(yard, source, rows.first, rows.end)
    document = predictions.make_request(model, name, types, found, divide)
    if divide == 1.0 and not options.quiet:
        for line in predictions.unscaled(types, found):
            terminal.note(line)
    terminal.console.out(json.dumps(document), highlight=False)
