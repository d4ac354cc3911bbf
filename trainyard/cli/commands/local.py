"""The local cloud: a yard on this machine, without an account. Needs a clone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainyard.cli.command import command, group
from trainyard.cli.options import Options
from trainyard.command_line import command_line

State = Annotated[
    Path | None,
    typer.Option("--state", readable=False, help="Its folder; .localcloud of the clone without it."),
]

PORT = 4566
Words = Annotated[
    list[str], typer.Argument(metavar="FAULT...", help="interrupt, refuse, throttle, kill, ...")
]
Job = Annotated[
    Path | None,
    typer.Argument(metavar="JOB", readable=False, help="A job file; without one digits on two hosts."),
]


def register(app: typer.Typer) -> None:
    clouds = group("The local cloud: AWS on this machine.")
    app.add_typer(clouds, name="local")
    command(clouds, "up", 'trainyard local up && eval "$(trainyard local env)"')(up)
    command(clouds, "down", "trainyard local down", "trainyard local down --forget")(down)
    command(clouds, "env", 'eval "$(trainyard local env)"')(env)
    command(clouds, "status", "trainyard local status")(status)
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    command(
        clouds,
        "fault",
        "trainyard local fault interrupt i-0123456789abcdef0",
        "trainyard local fault list",
        context_settings=passed_on,
    )(fault)
    command(app, "demo", "trainyard demo", "trainyard demo examples/mnist-single.yaml --keep")(demo)


def up(
    options: Options,
    state: State = None,
    port: Annotated[
        int | None,
        typer.Option(
            help=f"Of its endpoint on 127.0.0.1; {PORT} without it, or a free one where that is taken.",
            min=1,
            max=65535,
        ),
    ] = None,
    facts: Annotated[
        Path | None, typer.Option(readable=False, help="YAML over its facts: prices, capacity, latencies.")
    ] = None,
) -> None:
    """Start it in the background."""
    from trainyard.cli import clone
    from trainyard.cli.output import terminal

    more = ["--facts", str(facts)] if facts else []
    _localcloud(options, "up", "--detach", "--port", str(port or clone.port_for(PORT)), *more, state=state)
    if not options.quiet:
        env = command_line("local", "env", *(("--state", state) if state else ()))
        terminal.hint(f'Next: eval "$({env})", then {command_line("yard", "deploy")}')


def down(
    options: Options,
    state: State = None,
    forget: Annotated[bool, typer.Option("--forget", help="Delete all that is in it, too.")] = False,
) -> None:
    """End it and everything in it. It is as it was after the next up."""
    _localcloud(options, "down", *(["--forget"] if forget else []), state=state)


def env(options: Options, state: State = None) -> None:
    """Print what a shell needs to use it."""
    _localcloud(options, "env", state=state)


def status(options: Options, state: State = None) -> None:
    """Say whether it is up, and what runs on it."""
    _localcloud(options, "status", *(["--json"] if options.is_json else []), state=state)


def fault(options: Options, words: Words, state: State = None) -> None:
    """Let something go wrong in it, as it does on AWS (trainyard local fault help says what)."""
    if words == ["help"]:
        from trainyard.cli import clone

        clone.module(options, "localcloud", "fault", "--help")
    else:
        _localcloud(options, "fault", *words, state=state)


def demo(
    options: Options,
    job: Job = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the local cloud up.")] = False,
) -> None:
    """From nothing to a model, on this machine.

    Local cloud, deployment, image, training, result: the commands one after another.
    """
    from trainyard.cli import clone

    words = [f"JOB={job.resolve()}"] if job else []
    clone.make(options, "demo", *words, *(["KEEP=1"] if keep else []))


def _localcloud(options: Options, *words: str, state: Path | None) -> None:
    from trainyard.cli import clone

    clone.module(options, "localcloud", *words, "--state", str(state or clone.find() / ".localcloud"))
