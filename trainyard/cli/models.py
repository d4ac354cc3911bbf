"""Arguments and answers of the commands about models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from trainyard.cli.options import Options
from trainyard.protocol.export import DEFAULT_SIGNATURE

Name = Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.")]
Of = Annotated[str, typer.Option("--model", metavar="MODEL", help="Name of the model.")]
Alias = Annotated[str, typer.Option("--alias", metavar="NAME", help="Alias to move. Default: default.")]
OfVersion = Annotated[
    str | None,
    typer.Option(
        "--version", metavar="VERSION", help="Label or number of the version. Default: the default."
    ),
]
Signature = Annotated[
    str | None,
    typer.Option("--signature", metavar="NAME", help=f"Signature. Default: {DEFAULT_SIGNATURE}."),
]
Version = Annotated[str, typer.Argument(metavar="VERSION", help="Label or number of the version.")]


def print_answer(options: Options, answer: Mapping[str, Any], *hints: str) -> None:
    """Print the answer of a request, and what can follow."""
    from trainyard.cli.output import terminal

    if options.is_json:
        terminal.answer(answer)
        return
    terminal.console.print(answer["reason"], markup=False)
    if not options.quiet:
        for hint in hints:
            terminal.hint(hint)
