"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from trainyard.cli.completion import complete_hosts, complete_runs

MOST_PORT = 65535

# --- runs
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's id or the beginning of it, a job's name for its newest run, or @last.",
        autocompletion=complete_runs,
    ),
]
Runs = Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs.", autocompletion=complete_runs)]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return once it has begun.")]
NoLogs = Annotated[
    bool, typer.Option("--no-logs", help="Show the run's states and progress instead of what it prints.")
]

# --- jobs
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
Name = Annotated[str | None, typer.Option("--name", help="Another name of the job.")]
Labels = Annotated[
    list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="A label that the run is found by.")
]

# --- hosts
HostId = Annotated[
    str, typer.Argument(metavar="HOST", help="An instance's id (i-...).", autocompletion=complete_hosts)
]
Host = Annotated[
    str,
    typer.Argument(
        metavar="HOST",
        help="An instance's id (i-...), or a run as elsewhere: then its first host that runs.",
        autocompletion=complete_hosts,
    ),
]
Line = Annotated[
    list[str] | None, typer.Argument(metavar="-- COMMAND", help="Run this alone, and end as it does.")
]
Ports = Annotated[
    str, typer.Argument(metavar="PORT[:LOCAL]", help="The host's, and this computer's if it is another.")
]

# --- the local cloud
CloudState = Annotated[
    Path | None,
    typer.Option("--state", readable=False, help="Its folder; .localcloud of the clone without it."),
]

# --- the yard
Settings = Annotated[
    list[str] | None,
    typer.Option("--context", "-c", metavar="KEY=VALUE", help="A setting of the yard, as of cdk.json."),
]
Reset = Annotated[
    list[str] | None,
    typer.Option("--reset", metavar="KEY", help="Set a setting of the deployed yard back to the default."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print what the CDK prints, too.")]
Who = Annotated[str, typer.Argument(metavar="WHO", help="role/NAME, user/NAME or group/NAME of IAM.")]


def wanted(
    job: Path,
    changes: list[str] | None,
    parameter: list[str] | None,
    source: Path | None,
    types: list[str] | None,
) -> dict[str, Any]:
    """Return the keys of the job file that the options set, with their values."""
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
    """Return the values as a job file would have them; a key without a value has None."""
    from trainyard.core.jobfile import document

    values: dict[str, Any] = {}
    for key, text in pairs(changes, option):
        value = document.read(text.encode(), json_only=False)
        if isinstance(value, document.NotReadable):
            raise typer.BadParameter(f"{option} {key}: {value.reason}")
        values[key] = value
    return values


def pairs(words: list[str] | None, option: str) -> list[tuple[str, str]]:
    """Return each KEY=VALUE as a pair. Raises BadParameter."""
    found = []
    for word in words or []:
        key, sign, value = word.partition("=")
        if not key or not sign:
            raise typer.BadParameter(f"{option} takes KEY=VALUE, not {word!r}")
        found.append((key, value))
    return found
