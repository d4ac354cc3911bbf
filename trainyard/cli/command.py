"""A command of `trainyard`: a function that takes its Options first. Its errors become lines and an exit code."""

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
"""The options of all commands, before or after the command's name: types, names and help."""
ALSO = "And the options of every command, such as -o json: trainyard --help"


def group(about: str, **more: Any) -> typer.Typer:
    """Return a group of commands with this help."""
    return typer.Typer(
        help=about, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, **more
    )


@dataclass(frozen=True)
class Command:
    """A function with the examples of its help. A group gives the command its name."""

    function: Callable[..., None]
    examples: tuple[str, ...]
    settings: Mapping[str, Any]
    """Arguments of typer, such as hidden=True."""

    def register(self, app: typer.Typer, name: str) -> None:
        """Add the command to the group.

        The function's first parameter takes the completed Options. Typer fills the others.
        """
        own = [*inspect.signature(self.function, eval_str=True).parameters.values()][1:]

        def run(call: typer.Context, **given: Any) -> None:
            from trainyard.cli import failures

            after_name = Options(**{each: given.pop(each) for each in EVERYWHERE})
            options = after_name.over(call.find_root().obj or Options())
            with command_line.repeat_options(options.words), failures.show_failures(options):
                self.function(options.complete(os.environ, Path.cwd(), Path.home()), **given)

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
    """Decorate a function, so that it becomes a Command."""
    return lambda function: Command(function, examples, settings)


def root(app: typer.Typer) -> None:
    """Add the options that all commands share, and --version, before the command's name."""

    def keep(call: typer.Context, version: bool, **given: Any) -> None:
        call.obj = Options(**given)

    shown = Annotated[
        bool, typer.Option("--version", help="Show version and exit.", is_eager=True, callback=_version)
    ]
    takes = [
        inspect.Parameter("call", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        inspect.Parameter("version", inspect.Parameter.KEYWORD_ONLY, annotation=shown, default=False),
        *_everywhere(hidden=False),
    ]
    keep.__signature__ = inspect.Signature(takes)  # type: ignore[attr-defined]
    keep.__annotations__ = {each.name: each.annotation for each in takes}
    app.callback(invoke_without_command=False)(keep)


def _version(wanted: bool) -> None:
    if wanted:
        import trainyard

        typer.echo(trainyard.__version__)
        raise typer.Exit


def _everywhere(*, hidden: bool) -> list[inspect.Parameter]:
    """Return the shared options; `hidden` after a command's name, so that help shows them once."""
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
    """Return the end of a command's help. `\\b` keeps typer from wrapping the examples."""
    shown = "\b\nExamples:\n" + "".join(f"  {each}\n" for each in examples) if examples else ""
    return f"{shown}\n{ALSO}" if shown else ALSO
