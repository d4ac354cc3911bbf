"""A job before it is a run: begin one, check it, submit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.client.jobs.source import LocalJob

File = Annotated[
    Path, typer.Argument(metavar="JOB", readable=False, help="The job file, or a notebook (.ipynb).")
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Another value, as limits.hours=2; args.lr=.5 is program.args.lr. Without one: left out.",
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("-p", metavar="NAME=VALUE", help="A parameter of a notebook, as in -p epochs=3."),
]
Source = Annotated[
    Path | None,
    typer.Option(
        "--source", metavar="FOLDER", readable=False, help="What goes along with a notebook that lies in it."
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type", metavar="TYPE", help="An instance type that it may run on: hardware.instance_types."
    ),
]
NoLogs = Annotated[
    bool, typer.Option("--no-logs", help="Show the run's states and progress instead of what it prints.")
]
Name = Annotated[str | None, typer.Option("--name", help="Another name of the job.")]
Labels = Annotated[
    list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="A label that the run is found by.")
]


class Example(StrEnum):
    """What a first job may be made of."""

    LINE = "line"
    DIGITS = "digits"


def register(app: typer.Typer) -> None:
    command(app, "init", "trainyard init", "trainyard init mine --example digits")(init)
    command(app, "check", "trainyard check job.yaml", "trainyard check job.yaml --set args.lr=0.1 -o json")(
        check
    )
    command(
        app,
        "submit",
        "trainyard submit job.yaml",
        "trainyard submit job.yaml --set args.lr=.5 --name sweep -d",
        "trainyard submit job.yaml --resume digits-1a2b3c4d",
        "trainyard submit train.ipynb -p epochs=3 --type g5.xlarge",
    )(submit)


def init(
    options: Options,
    folder: Annotated[Path, typer.Argument(help="Where to put them.", readable=False)] = Path(),
    example: Annotated[Example, typer.Option(help="What it trains.")] = Example.LINE,
) -> None:
    """Begin a job: write a job file, a program and data."""
    from trainyard.cli import examples
    from trainyard.cli.output import terminal

    written = examples.write(example, folder)
    if options.is_json:
        terminal.answer({"files": [str(each) for each in written]})
        return
    for each in written:
        terminal.console.print(str(each), markup=False)
    if not options.quiet:
        terminal.hint(f"Next: {command_line('check', written[0])}")


def check(
    options: Options,
    job: File,
    changes: Changes = None,
    parameter: Parameters = None,
    source: Source = None,
    type: Types = None,  # noqa: A002 - as one types it
) -> None:
    """Say every fault of a job file, or of a notebook, at once.

    It asks no cloud, so it needs no account. Exits with 3 where there are faults.
    """
    from trainyard.cli.failures import code_of
    from trainyard.cli.output import terminal
    from trainyard.client.errors import FileBroken, JobRefused
    from trainyard.client.jobs.source import read

    try:
        local = read(job, changes=wanted(job, changes, parameter, source, type))
        local.check_known_failures()
    except (JobRefused, FileBroken) as refused:
        if not options.is_json:
            raise
        faults = [{"path": fault.path, "problem": fault.problem} for fault in refused.faults]
        terminal.answer({"job": str(job), "ok": False, "faults": faults, "warnings": []})
        raise typer.Exit(code_of(refused)) from None
    if options.is_json:
        found = {"job": str(job), "ok": True, "faults": [], "warnings": [*local.warnings]}
        terminal.answer(found | {"notes": [*local.notes]})
        return
    for line in seen(local):
        terminal.console.print(line, markup=False)
    if not options.quiet:
        asked = _words(
            {"--set": changes, "-p": parameter, "--source": [source] if source else None, "--type": type}
        )
        terminal.hint(f"Next: {command_line('submit', job, *asked)}")


def submit(
    options: Options,
    job: File,
    changes: Changes = None,
    name: Name = None,
    label: Labels = None,
    parameter: Parameters = None,
    source: Source = None,
    type: Types = None,  # noqa: A002 - as one types it
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Continue from this run's last checkpoint or outputs."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Run a program that is known to fail on such hosts.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once it has begun.")] = False,
    no_logs: NoLogs = False,
) -> None:
    """Start a run of a job, or of a notebook, and follow it.

    The program and data beside the job file go along; what the bucket has already is not sent again. The run's id is
    printed at once, then what the program prints on the chief while it runs. Ctrl-C leaves the run alone.
    """
    from trainyard.cli import following, runs
    from trainyard.cli.output import terminal
    from trainyard.client.jobs.source import read
    from trainyard.client.yard import changes as asked

    set_ = wanted(job, changes, parameter, source, type)
    yard = options.find()
    goes_on = runs.find(yard, resume).id if resume else None
    local = read(
        job, changes=asked(set_, name, dict(pairs(label, "--label")), goes_on), bucket=yard.bucket.name
    )
    if not force:
        local.check_known_failures()
    if from_run := local.job.checkpoints.resume:
        yard.check_ended(from_run)
    if not options.quiet:
        for line in (*goes_along(local), *local.notes, *(f"Warning: {each}" for each in local.warnings)):
            terminal.hint(line)
    with terminal.transfers(options.quiet) as tell:
        uploaded = yard.upload(local, tell)
    following.begun(options, yard.run(uploaded.run), detach=detach, logs=not no_logs, sent=uploaded.sent)


# --- what is typed
def _words(options: Mapping[str, Sequence[str | Path] | None]) -> list[str | Path]:
    """Options as they are typed again."""
    return [word for name, values in options.items() for value in values or () for word in (name, value)]


def wanted(
    job: Path,
    changes: list[str] | None,
    parameter: list[str] | None,
    source: Path | None,
    types: list[str] | None,
) -> dict[str, Any]:
    """What the options ask for, as keys of the job file and their values."""
    from trainyard.client.jobs import notebooks

    set_ = parsed(changes)
    if types:
        set_["hardware.instance_types"] = types
    if job.suffix != notebooks.ENDING:
        if parameter or source:
            instead = "--set args.NAME=VALUE" if parameter else "program.source of the job file"
            raise typer.BadParameter(
                f"{'-p' if parameter else '--source'} is for notebooks; for {job} use {instead}"
            )
        return set_
    if source:
        set_[notebooks.SOURCE] = notebooks.source_of(job, source)
    return set_ | notebooks.as_changes(parsed(parameter, "-p"))


def parsed(changes: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """Values as a job file would have them; None where nothing stands behind the sign."""
    from trainyard.core.jobfile import document

    values: dict[str, Any] = {}
    for key, text in pairs(changes, option):
        value = document.read(text.encode(), json_only=False)
        if isinstance(value, document.NotReadable):
            raise typer.BadParameter(f"{option} {key}: {value.reason}")
        values[key] = value
    return values


def pairs(words: list[str] | None, option: str) -> list[tuple[str, str]]:
    """KEY=VALUE, each."""
    found = []
    for word in words or []:
        key, sign, value = word.partition("=")
        if not key or not sign:
            raise typer.BadParameter(f"{option} takes KEY=VALUE, not {word!r}")
        found.append((key, value))
    return found


def seen(local: LocalJob) -> list[str]:
    """What a job without faults is, in lines."""
    job = local.job
    cluster, hardware = job.cluster, job.hardware
    least = f"{job.at_least.gang} to " if cluster.is_elastic else ""
    hosts = f"{least}{job.gang} host{'s' if job.gang > 1 else ''}"
    lines = [
        f"{local.file}: no fault found",
        f"  {job.name}: {job.program.called}, {cluster.strategy} on {hosts}",
        f"  {', '.join(hardware.instance_types)}; {hardware.market.replace('_', ' ')}",
        f"  at most ${job.limits.dollars:g} and {job.limits.hours:g} h",
    ]
    lines += [f"  {line}" for line in (*goes_along(local, packed=True), *local.notes)]
    return [*lines, *(f"  warning: {warning}" for warning in local.warnings)]


def goes_along(local: LocalJob, *, packed: bool = False) -> list[str]:
    """Return a line for each folder or file that goes along, and one for the commit that the program is from. `packed`:
    say also how large a program is packed."""
    from trainyard.core.values.quantities import sized

    lines = []
    for package in local.packages:
        size = "" if package.is_folder or not packed else f", {sized(package.packed_size)} packed"
        lines.append(f"goes along: {package.tree.shown} ({package.described}{size})")
    origin = local.job.origin
    return [*lines, *([f"its commit: {origin.described}"] if origin.commit else [])]
