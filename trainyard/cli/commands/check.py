"""List every fault of a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trainyard.cli.arguments import Changes, File, Parameters, Source, Types, read_options
from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.client.jobs.source import LocalJob
    from trainyard.core.model.job import Job


@command("trainyard check job.yaml", "trainyard check job.yaml --set args.lr=0.1 -o json")
def check(
    options: Options,
    job: File,
    changes: Changes = None,
    parameter: Parameters = None,
    source: Source = None,
    type: Types = None,  # noqa: A002 - the name of the option
) -> None:
    """Check a job file or a notebook, and list all faults.

    Works offline and without an account. Exits with 3 if there are faults.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.errors import FileBroken, JobRefused
    from trainyard.client.jobs.source import read

    try:
        local = read(job, changes=read_options(job, changes, parameter, source, type))
        local.check_known_failures()
    except (JobRefused, FileBroken) as refused:
        if not options.is_json:
            raise
        faults = [{"path": fault.path, "problem": fault.problem} for fault in refused.faults]
        terminal.answer({"job": str(job), "ok": False, "faults": faults, "warnings": []})
        raise typer.Exit(refused.exit_code) from None
    if options.is_json:
        found = {"job": str(job), "ok": True, "faults": [], "warnings": [*local.warnings]}
        terminal.answer(found | {"notes": [*local.notes, *unread_of(local)]})
        return
    for line in describe_job(local):
        terminal.console.print(line, markup=False)
    if not options.quiet:
        asked = _words(
            {"--set": changes, "-p": parameter, "--source": [source] if source else None, "--type": type}
        )
        terminal.hint(f"Next: {command_line('submit', job, *asked)}")


def _words(options: Mapping[str, Sequence[str | Path] | None]) -> list[str | Path]:
    """Return the options as words of a command line."""
    return [word for name, values in options.items() for value in values or () for word in (name, value)]


def describe_job(local: LocalJob) -> list[str]:
    """Describe a job without faults, in lines."""
    from trainyard.values.quantities import format_count

    job = local.job
    cluster, hardware = job.cluster, job.hardware
    least = f"{job.at_least.gang} to " if cluster.is_elastic else ""
    hosts = f"{least}{format_count(job.gang, 'host')}"
    lines = [
        f"{local.file}: no faults",
        f"  {job.name}: {job.program.called}, {cluster.strategy} on {hosts}",
        f"  {', '.join(hardware.instance_types)}; {hardware.market.replace('_', ' ')}",
        f"  limits: ${job.limits.dollars:g} and {job.limits.hours:g} h",
    ]
    lines += [f"  {line}" for line in study_of(job)]
    lines += [f"  {line}" for line in (*uploads_of(local, packed=True), *local.notes, *unread_of(local))]
    return [*lines, *(f"  warning: {warning}" for warning in local.warnings)]


def study_of(job: Job) -> list[str]:
    """Describe the study of a job, in lines. Return none for a job that runs once."""
    from trainyard.core.jobfile.study_rules import trials_of
    from trainyard.values.quantities import format_count

    study = job.study
    if study is None:
        return []
    trials = f"{format_count(trials_of(study), 'trial')}, {study.parallel} at once"
    best = f"{study.objective.goal} {study.objective.metric}"
    return [
        f"study: {trials}; {best} by {study.sampler} over {', '.join(study.parameters)}",
        f"limits of the study: ${study.limits.dollars:g} and {study.limits.hours:g} h",
    ]


def unread_of(local: LocalJob) -> list[str]:
    """Describe what only the yard can check, in lines."""
    container = local.job.program.container
    if container is None:
        return []
    plan = command_line("plan", local.file)
    return [
        f"not checked: {container.image} in its registry; {plan} lets the yard read it, and launches nothing"
    ]


def uploads_of(local: LocalJob, *, packed: bool = False) -> list[str]:
    """Return a line for each folder or file that is uploaded, and one for the program's commit.

    With `packed`, include the size of the packed program.
    """
    from trainyard.values.quantities import format_bytes

    lines = []
    for package in local.packages:
        size = "" if package.is_folder or not packed else f", {format_bytes(package.packed_size)} packed"
        lines.append(f"upload: {package.tree.shown} ({package.described}{size})")
    origin = local.job.origin
    return [*lines, *([f"commit: {origin.described}"] if origin.commit else [])]
