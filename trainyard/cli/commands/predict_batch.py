"""Answer the rows of many files with a model."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.arguments import Detach, Name, NoLogs, Types
from trainyard.cli.command import command
from trainyard.cli.models import Signature
from trainyard.cli.options import Options
from trainyard.core.model.batch import Format


@command(
    "trainyard predict-batch digits s3://BUCKET/data/new/",
    "trainyard predict-batch digits@champion ./rows/ --format npz --workers 4 --type g6.xlarge -d",
)
def predict_batch(
    options: Options,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL[@VERSION]", help="Model, and an alias, label or number of its version."
        ),
    ],
    source: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Folder with the files, s3://.../ or ./folder/.")
    ],
    format: Annotated[  # noqa: A002 - the name of the option
        Format,
        typer.Option("--format", metavar="FORMAT", help="Format of the files: jsonl, tfrecord or npz."),
    ] = Format.JSONL,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Number of hosts.")] = 1,
    type: Types = None,  # noqa: A002 - the name of the option
    signature: Signature = None,
    name: Name = None,
    detach: Detach = False,
    no_logs: NoLogs = False,
) -> None:
    """Answer the rows of many files with a version of a model, in a run.

    Without --type, the hosts have no GPU. `get RUN predictions` downloads the answers and errors.jsonl, which names
    each row without an answer.
    """
    from trainyard.cli import following
    from trainyard.cli.output import terminal
    from trainyard.client import batches

    yard = options.find()
    local = batches.job_of(
        yard, model, source, form=format, workers=workers, types=type or (), signature=signature, name=name
    )
    with terminal.transfers(options.quiet) as on_progress:
        uploaded = yard.upload(local, on_progress)
    following.follow_new(options, yard.run(uploaded.run), detach=detach, logs=not no_logs, sent=uploaded.sent)
