"""Arguments and options that several commands share."""

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
        help="ID of a run or its beginning, name of a job (its newest run), or @last.",
        autocompletion=complete_runs,
    ),
]
StudyId = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="ID of a study or its beginning, name of its job, or @last.",
        autocompletion=complete_runs,
    ),
]
Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...", help="Runs, each as an ID, a job name or @last.", autocompletion=complete_runs
    ),
]
MetricName = Annotated[
    str,
    typer.Option("--metric", metavar="NAME", help="Metric to draw."),
]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return once the run has started.")]
NoLogs = Annotated[
    bool, typer.Option("--no-logs", help="Show states and progress instead of the program's output.")
]

# --- jobs
File = Annotated[
    Path, typer.Argument(metavar="JOB", readable=False, help="Job file, or a notebook (.ipynb).")
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key of the job file, e.g. limits.hours=2. args.lr is short for program.args.lr. "
        "KEY= removes the key.",
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("-p", metavar="NAME=VALUE", help="Parameter of a notebook, e.g. -p epochs=3."),
]
Source = Annotated[
    Path | None,
    typer.Option(
        "--source", metavar="FOLDER", readable=False, help="Folder to send with a notebook inside it."
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Instance type to use. Repeat for more."),
]
Name = Annotated[str | None, typer.Option("--name", help="Name of the job, instead of the file's.")]
Labels = Annotated[list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Label of the run.")]

# --- hosts
HostId = Annotated[
    str, typer.Argument(metavar="HOST", help="ID of a host (i-...).", autocompletion=complete_hosts)
]
Host = Annotated[
    str,
    typer.Argument(
        metavar="HOST",
        help="ID of a host (i-...), or a run, which means its first running host.",
        autocompletion=complete_hosts,
    ),
]
Line = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="-- COMMAND", help="Command to run instead of a shell; its exit code is returned."
    ),
]
Ports = Annotated[
    str, typer.Argument(metavar="PORT[:LOCAL]", help="Port of the host, and the local port if it differs.")
]

# --- the local cloud
CloudState = Annotated[
    Path | None,
    typer.Option(
        "--state", readable=False, help="Folder of the local cloud. Default: .localcloud in the clone."
    ),
]

# --- the yard
Settings = Annotated[
    list[str] | None,
    typer.Option("--context", "-c", metavar="KEY=VALUE", help="Setting of the yard, as in cdk.json."),
]
Reset = Annotated[
    list[str] | None,
    typer.Option("--reset", metavar="KEY", help="Reset a setting of the deployed yard to its default."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Also print the output of the CDK.")]
Who = Annotated[str, typer.Argument(metavar="WHO", help="IAM principal: role/NAME, user/NAME or group/NAME.")]


def read_options(
    job: Path,
    changes: list[str] | None,
    parameter: list[str] | None,
    source: Path | None,
    types: list[str] | None,
) -> dict[str, Any]:
    """Return the keys of the job file that the options set, with their values. Raises BadParameter."""
    from trainyard.client.jobs import notebooks

    set_ = parse_changes(changes)
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
    return set_ | notebooks.as_changes(parse_changes(parameter, "-p"))


def parse_changes(changes: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """Return the values as a job file would have them, and None for a key without a value. Raises BadParameter."""
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
