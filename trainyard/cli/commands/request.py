"""Write a request for predictions with rows of a file."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.protocol.export import DEFAULT_SIGNATURE


def parse_rows(text: str | tuple[int, int]) -> tuple[int, int]:
    """Return the first row, and the row behind the last. Typer passes a default that is parsed already."""
    if isinstance(text, tuple):
        return text
    first, _, behind = text.partition(":")
    if not (first or "0").isdecimal() or not (behind or "1").isdecimal():
        raise typer.BadParameter(f"{text} is no range of rows, such as 0:3, or one row, such as 7")
    start = int(first or 0)
    stop = int(behind) if behind else start + 1
    if stop <= start:
        raise typer.BadParameter(f"{text} has no rows; the second number is behind the last row")
    return start, stop


@command("trainyard request digits --from test.npz --rows 0:3 > request.json")
def request(
    options: Options,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.")],
    source: Annotated[
        str,
        typer.Option("--from", metavar="FILE", help="File with arrays: FILE.npz or s3://BUCKET/FILE.npz."),
    ],
    rows: Annotated[
        tuple[int, int],
        typer.Option(
            "--rows", metavar="FIRST:END", parser=parse_rows, help="Rows of the arrays. END is not included."
        ),
    ] = (0, 3),
    divide: Annotated[
        float,
        typer.Option("--divide", metavar="NUMBER", help="Divide the values of float inputs, such as by 255."),
    ] = 1.0,
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="VERSION", help="Label or number of the version. Default: the default."
        ),
    ] = None,
    signature: Annotated[
        str | None,
        typer.Option("--signature", metavar="NAME", help=f"Signature. Default: {DEFAULT_SIGNATURE}."),
    ] = None,
) -> None:
    """Write a request for predictions with rows of a file.

    The rows have the shapes of the signature's inputs. An array belongs to the input of its name, or to the only input
    whose rows have as many values. `predict`, curl and TensorFlow Serving accept the request.
    """
    from trainyard.cli.output import terminal
    from trainyard.client import predictions

    yard = options.find()
    name, types = yard.model(model).signature(signature, version)
    found = predictions.read_arrays(yard, source, *rows)
    document = predictions.make_request(model, name, types, found, divide)
    if divide == 1.0 and not options.quiet:
        for line in predictions.unscaled(types, found):
            terminal.note(line)
    terminal.console.out(json.dumps(document), highlight=False)
