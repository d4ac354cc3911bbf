"""Create a version of a model."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.models import Of, print_answer
from trainyard.cli.options import Options
from trainyard.command_line import command_line


@command(
    "trainyard versions create v1 --model digits --origin @last",
    "trainyard versions create v2 --model digits --origin ./export",
)
def create(
    options: Options,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="Label of the new version, e.g. v1.")],
    model: Of,
    origin: Annotated[
        str,
        typer.Option(
            "--origin",
            metavar="WHERE",
            help="@last, a run, s3://..., or ./FOLDER with a SavedModel.",
        ),
    ],
) -> None:
    """Create a version from a SavedModel, and wait until it is ready.

    The yard copies the files, and compares the version's answers with those that TensorFlow gave at the export.
    """
    from trainyard.cli import runs

    yard = options.find()
    if not origin.startswith((".", "/", "~", "s3://")):
        origin = runs.find(yard, origin).id
    answer = yard.model(model).create_version(label, origin)
    following = command_line("versions", "set-default", label, "--model", model)
    print_answer(options, answer, f"Next: {following}")
