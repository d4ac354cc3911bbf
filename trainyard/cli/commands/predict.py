"""Ask a model for predictions."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from trainyard.cli.command import command
from trainyard.cli.dev_hosts import step_printer
from trainyard.cli.models import Of, OfVersion, Signature
from trainyard.cli.options import Options

MOST_CHARACTERS = 160


@command(
    "trainyard predict --model digits --json-instances request.json",
    "trainyard predict --model digits --json-instances request.json --explain",
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
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="TEXT",
            help="Decides between the default version and a canary. Default: the rows.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also print version, alias, bytes, times and inputs.")
    ] = False,
) -> None:
    """Ask a version of a model for predictions.

    The function for predictions answers, and costs nothing without requests. The first request after a pause takes
    some seconds. A version that only TensorFlow runs is answered by its host, which starts again if it was served
    before.
    """
    from trainyard.cli.output import terminal
    from trainyard.client import predictions, serving
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
    known, on_step = options.find().model(model), step_printer(options)
    answer = serving.predict(known, document, version, on_step, key=key, explain=explain)
    if options.is_json:
        found = {"model": model, "version": answer.version, "predictions": answer.predictions}
        terminal.answer({**found, **({"explained": answer.explained} if explain else {})})
        return
    rows = answer.predictions if isinstance(answer.predictions, list) else [answer.predictions]
    for number, row in enumerate(rows):
        terminal.console.print(f"{number:>3}  {_shorten(row)}", markup=False, highlight=False)
    for line in _explain(answer.explained or {}):
        terminal.console.print(line, markup=False, highlight=False)
    if not options.quiet and not explain:
        terminal.note(f"{model}, version {answer.version}")


def _explain(found: Mapping[str, Any]) -> Iterator[str]:
    if not found:
        return
    canary = ", as the canary" if found.get("canary") else ""
    alias = f", named by the alias {found['alias']}" if found["alias"] and not canary else ""
    yield f"version     {found['version']} ({found['label']}){alias}{canary}"
    for name, shown in found["inputs"].items():
        yield f"input       {name}: {shown} (signature {found['signature']})"
    yield f"bytes       {found['sent_bytes']:,} sent, {found['answer_bytes']:,} received"
    loaded = ", and loaded the version" if found["loaded"] else ""
    yield f"time        {found['total_milliseconds']:g} ms; the function took {found['milliseconds']:g} ms{loaded}"


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
