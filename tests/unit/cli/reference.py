"""The reference of the commands in docs/cli.md, generated from the commands.

`python -m tests.unit.cli.reference` (part of `make format`) writes it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from trainyard.cli.app import app

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"
BEGIN, END = "<!-- commands: begin -->", "<!-- commands: end -->"


def text() -> str:
    """Return the reference of all commands."""
    return "\n".join(_group(typer.main.get_command(app), ("trainyard",)))


def page(current: str) -> str:
    """Return the page with the current reference."""
    before, _, rest = current.partition(BEGIN)
    return f"{before}{BEGIN}\n{text()}\n{END}{rest.partition(END)[2]}"


def _group(group: Any, words: tuple[str, ...]) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _group(command, (*words, name))
        else:
            yield from _command(command, (*words, name))


def _command(command: Any, words: tuple[str, ...]) -> Iterator[str]:
    shown = [each for each in command.params if not each.hidden and each.name != "help"]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    usage = " ".join([*words, *(_called(each) for each in arguments)])
    yield f"### {' '.join(words[1:])}\n"
    yield f"```\n{usage}{' [OPTIONS]' if len(shown) > len(arguments) else ''}\n```\n"
    yield " ".join(f"{command.help}\n".replace("\n\n", "\0").split("\n")).replace("\0", "\n\n").strip() + "\n"
    if shown:
        yield "| | |\n|---|---|"
        yield from (f"| `{_names(each)}` | {each.help}{_default(each)} |" for each in shown)
        yield ""
    yield f"```sh\n{_examples(command.epilog)}\n```\n"


def _called(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _names(each: Any) -> str:
    if each.param_type_name == "argument":
        return str(each.metavar or each.name.upper())
    words = ", ".join(each.opts)
    return words if each.is_flag else f"{words} {each.metavar or each.name.upper()}".replace("|", "\\|")


def _default(each: Any) -> str:
    given = each.default
    known = given is not None and given is not False and not callable(given)
    return f" Default: `{getattr(given, 'value', given)}`." if known and str(given) else ""


def _examples(epilog: str) -> str:
    lines = epilog.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    return "\n".join(line.strip() for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
