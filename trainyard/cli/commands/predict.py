"""Ask a model for predictions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from trainyard.cli.command import command
from trainyard.cli.models import Of, OfVersion, Signature
from trainyard.cli.options import Options

MOST_CHARACTERS = 160


@command(
    "trainyard predict --model digits --json-instances request.json",
    "trainyard request digits --from test.npz | trainyard predict --model digits --json-instances -",
)
def predict(
    options: Options,
    model: Of,
    instances: Annotated[
        str,
        typer.Option(
            "--json-instances",
            metavar="FILE",
            help="One instance a line, or an object with instances or inputs. -: standard input.",
        ),
    ],
    version: OfVersion = None,
    signature: Signature = None,
) -> None:
    """Ask a version of a model for predictions.

    The function for predictions answers, and costs nothing without requests. The first request after a pause takes
    some seconds.
    """
    from trainyard.cli.output import terminal
    from trainyard.client import predictions
    from trainyard.client.errors import FileUnreadable

    try:
        text = sys.stdin.read() if instances == "-" else Path(instances).expanduser().read_text()
    except OSError as error:
        raise FileUnreadable.of(error) from error
    except UnicodeDecodeError as error:
        raise FileUnreadable(
            f"{instances} is not text in UTF-8 ({error})", "nothing was sent", "write the request as JSON"
        ) from error
    document = predictions.read_instances(instances, text)
    if signature:
        document["signature_name"] = signature
    answer = predictions.predict(options.find(), model, document, version)
    if options.is_json:
        terminal.answer({"model": model, "version": answer.version, "predictions": answer.predictions})
        return
    rows = answer.predictions if isinstance(answer.predictions, list) else [answer.predictions]
    for number, row in enumerate(rows):
        terminal.console.print(f"{number:>3}  {_shorten(row)}", markup=False, highlight=False)
    if not options.quiet:
        terminal.note(f"{model}, version {answer.version}")


def _shorten(row: Any) -> str:
    """Return a row in one line. The largest of several numbers comes first, because it is the class of a classifier."""
    text = json.dumps(_rounded(row), ensure_ascii=False)
    text = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."
    if isinstance(row, list) and len(row) > 1 and all(isinstance(each, float) for each in row):
        return f"largest: {row.index(max(row))}  {text}"
    return text


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.4g}")
        case list():
            return [_rounded(each) for each in value]
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
    return value
