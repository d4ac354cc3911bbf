"""Pages for language models: llms.txt (llmstxt.org) has every command with two examples, llms-full.txt all pages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from trainyard.cli.app import app

HEAD = """# Trainyard

> Trainyard turns a job file into a trained TensorFlow model on spot or on-demand GPU hosts in your own AWS account, or
> on the local cloud of one machine, and never leaves a GPU running for nothing.

- `trainyard` is a client that uses your AWS credentials. `--yard NAME`, `--profile` and `--region` choose the yard. For
  the local cloud, first run `eval "$(trainyard local env)"`.
- RUN is the ID of a run, the beginning of an ID, the name of a job (its newest run), or `@last`. HOST is an instance.
- `-o json` prints one JSON document; commands that follow a run print one document per line. Errors are one JSON object
  on standard error with `what`, `means` and `next_step`.
- Exit codes: 0 success, 1 the run failed, 2 wrong usage, 3 refused, 4 not found, 5 permission denied, 69 AWS does not
  answer, 70 internal error, 130 interrupted. Ctrl-C never ends a run.
- A run that waits for capacity continues to wait. `trainyard why RUN` states the reason, `trainyard stop RUN` ends it.
- Runs, hosts and images cost money. `trainyard plan JOB` states the price and starts nothing. `limits.dollars` and
  `limits.hours` in the job file cap a run.
"""
MOST_EXAMPLES = 2
FIRST = re.compile(r"(?<=[.?])\s")
HISTORY = "Decisions"
"""The section of the navigation that no user needs."""
CONTRACTS = "Contracts"
COMMENT = re.compile(r"<!--.*?-->|```.*?```", re.DOTALL)


def index(nav: list[Any], docs: Path) -> str:
    """Return llms.txt: the commands with examples, and a link to each page of the navigation."""
    return "\n".join([HEAD, *_commands(), *_links(nav, docs)])


def full(nav: list[Any], docs: Path) -> str:
    """Return llms-full.txt: every page of the navigation, one after another."""
    return (
        "\n\n".join((docs / path).read_text().strip() for title, path in _pages(nav) if title != HISTORY)
        + "\n"
    )


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words of each command, with the command."""
    yield from _leaves(typer.main.get_command(app), ("trainyard",))


def _commands() -> Iterator[str]:
    """Yield each command with its help, its options and its first examples."""
    yield "## Commands\n"
    for words, command in commands():
        options = [
            f"`{max(each.opts, key=len)}` ({each.help.rstrip('.')})"
            for each in command.params
            if not each.hidden and each.param_type_name == "option" and each.name != "help"
        ]
        given = [each for each in command.params if each.param_type_name == "argument"]
        usage = " ".join([*words, *(each.metavar or each.name.upper() for each in given)])
        listed = f" Options: {', '.join(options)}." if options else ""
        yield f"- `{usage}`: {' '.join(command.help.split())}{listed}"
        examples = (command.epilog or "").partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
        yield from (f"  - `{line.strip()}`" for line in examples[:MOST_EXAMPLES])


def _leaves(group: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from _leaves(command, (*words, name))
        else:
            yield (*words, name), command


def _links(nav: list[Any], docs: Path) -> Iterator[str]:
    section = None
    for title, path in _pages(nav):
        if title in (HISTORY, CONTRACTS):
            continue
        if title != section:
            section = title
            yield f"\n## {title}\n"
        text = (docs / path).read_text()
        heading, _, rest = text.partition("\n")
        sentences = FIRST.split(" ".join(COMMENT.sub(" ", rest).split()), maxsplit=1)
        about = f": {sentences[0]}" if re.match(r"[A-Z`]", sentences[0]) else ""
        address = path.replace("README.md", "index.md").removesuffix(".md")
        yield f"- [{heading.lstrip('# ')}]({address}.html){about}"


def _pages(nav: list[Any], title: str = "Start") -> Iterator[tuple[str, str]]:
    """Yield the title of the section and the path of each page."""
    for entry in nav:
        if isinstance(entry, str):
            yield title, entry
        else:
            ((name, inner),) = entry.items()
            yield from _pages(inner, name) if isinstance(inner, list) else [(title, inner)]
