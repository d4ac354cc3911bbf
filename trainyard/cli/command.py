"""A command of `trainyard`: a function that is given its Options first, and whose errors are lines and exit codes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from trainyard import command_line
from trainyard.cli.options import Options, Output

EVERYWHERE: dict[str, tuple[Any, tuple[str, ...], dict[str, Any]]] = {
    "yard": (str | None, ("--yard",), {"metavar": "NAME", "help": "Name of the yard. Default: Trainyard."}),
    "profile": (
        str | None,
        ("--profile",),
        {"metavar": "NAME", "help": "AWS profile to use."},
    ),
    "region": (str | None, ("--region",), {"metavar": "NAME", "help": "AWS region of the yard."}),
    "output": (Output | None, ("--output", "-o"), {"metavar": "table|json", "help": "Output format."}),
    "quiet": (bool, ("--quiet", "-q"), {"help": "Print only the result."}),
}
"""The options of all commands, before a command's name or behind it: their types, names and help."""
ALSO = "And the options of every command, such as -o json: trainyard --help"


def group(about: str, **more: Any) -> typer.Typer:
    """Commands under one name."""
    return typer.Typer(
        help=about, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, **more
    )


@dataclass(frozen=True)
class Command:
    """A function with the examples of its help; a group gives it its name."""

    function: Callable[..., None]
    examples: tuple[str, ...]
    settings: Mapping[str, Any]
    """Arguments of typer, such as hidden=True."""

    def register(self, app: typer.Typer, name: str) -> None:
        """Add the command to the group. The first parameter of the function is the Options, completed; the others are
        typer's."""
        own = [*inspect.signature(self.function, eval_str=True).parameters.values()][1:]

        def run(call: typer.Context, **given: Any) -> None:
            from trainyard.cli import failures

            said = Options(**{each: given.pop(each) for each in EVERYWHERE})
            options = said.over(call.find_root().obj or Options())
            with command_line.repeat_options(options.words), failures.told(options):
                self.function(options.completed(os.environ, Path.cwd(), Path.home()), **given)

        takes = [
            inspect.Parameter("call", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own),
            *_everywhere(hidden=True),
        ]
        run.__signature__ = inspect.Signature(takes)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in takes}
        run.__doc__, run.__name__ = self.function.__doc__, self.function.__name__
        app.command(name, epilog=_epilog(self.examples), rich_help_panel=None, **self.settings)(run)


def command(*examples: str, **settings: Any) -> Callable[[Callable[..., None]], Command]:
    """Make a Command of the function below."""
    return lambda function: Command(function, examples, settings)


def root(app: typer.Typer) -> None:
    """The options of all commands, before a command's name."""

    def said(call: typer.Context, version: bool, **given: Any) -> None:
        call.obj = Options(**given)

    shown = Annotated[
        bool, typer.Option("--version", help="Show version and exit.", is_eager=True, callback=_version)
    ]
    takes = [
        inspect.Parameter("call", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        inspect.Parameter("version", inspect.Parameter.KEYWORD_ONLY, annotation=shown, default=False),
        *_everywhere(hidden=False),
    ]
    said.__signature__ = inspect.Signature(takes)  # type: ignore[attr-defined]
    said.__annotations__ = {each.name: each.annotation for each in takes}
    app.callback(invoke_without_command=False)(said)


def _version(said: bool) -> None:
    if said:
        import trainyard

        typer.echo(trainyard.__version__)
        raise typer.Exit


def _everywhere(*, hidden: bool) -> list[inspect.Parameter]:
    """Behind a command's name they are not shown again."""
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=Annotated[kind, typer.Option(*names, hidden=hidden, **more)],
            default=False if kind is bool else None,
        )
        for name, (kind, names, more) in EVERYWHERE.items()
    ]


def _epilog(examples: tuple[str, ...]) -> str:
    """Lines that are not wrapped: \\b says so."""
    shown = "\b\nExamples:\n" + "".join(f"  {each}\n" for each in examples) if examples else ""
    return f"{shown}\n{ALSO}" if shown else ALSO
