"""Download the results of a run."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from trainyard.cli import parts
from trainyard.cli.arguments import Run
from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.cli.parts import FOLDERS, Part
from trainyard.command_line import command_line
from trainyard.protocol.trial import study_of

MOST_NAMED = 5
"""Files that one line lists by name."""


@command("trainyard get digits", "trainyard get digits checkpoints ./checkpoints")
def get(
    options: Options,
    run: Run,
    part: Annotated[
        str,
        typer.Argument(
            metavar="PART",
            parser=parts.parse,
            help=f"{', '.join(Part)}, or outputs/PATH for one file or folder/ of the outputs.",
        ),
    ] = Part.MODEL,
    folder: Annotated[
        Path | None,
        typer.Argument(
            readable=False,
            help="Folder to download into. Default: a folder with the run's ID, and PART in it.",
        ),
    ] = None,
) -> None:
    """Download the model of a run, or another part of it.

    If the run has exported no model, `get` downloads the model among its outputs (SavedModel, .keras, .h5, .pt, .onnx
    ...), or lists the models if there are several.

    Compares files by content and downloads only files that differ. Removes files that an earlier `get` has downloaded
    into the folder from another run, so that two runs never mix.
    """
    from trainyard.cli import runs
    from trainyard.cli.output import terminal
    from trainyard.client.errors import NothingFound
    from trainyard.values.quantities import format_count

    found = runs.find(options.find(), run)
    in_folder = part in FOLDERS or part.startswith(f"{Part.OUTPUTS}/")
    target = folder or (Path(found.id) / PurePosixPath(part).parts[0] if in_folder else Path(found.id))
    with terminal.transfers(options.quiet) as on_progress:
        if part == Part.MODEL:
            part, fetched = found.fetch_model(target, on_progress)
        else:
            fetched = found.fetch(part, target, on_progress)
    for line in fetched.left_out:
        terminal.note(f"Left out: {line}")
    if fetched.replaced and not options.quiet:
        named = ", ".join(fetched.replaced[:MOST_NAMED])
        more = f" and {len(fetched.replaced) - MOST_NAMED} more" if len(fetched.replaced) > MOST_NAMED else ""
        terminal.note(f"Replaced files that `get` had not downloaded: {named}{more}")
    if not fetched.files:
        there = parts.list_parts(found)
        other = next((each for each in there if each in FOLDERS), None)
        kept = "; a study keeps the models and checkpoints of its best trials only (study.keep)"
        raise NothingFound(
            f"{found.id} has no {part}",
            f"its results are {', '.join(there)}{kept if study_of(found.id) else ''}"
            if there
            else "the run has no results yet",
            command_line("get", found.id, other) if other else command_line("show", found.id),
        )
    if options.is_json:
        answer = {"run": found.id, "part": part, "folder": str(target), "files": fetched.files}
        answer |= {"new": fetched.new, "left_out": fetched.left_out}
        terminal.answer(answer | {"removed": fetched.removed, "replaced": fetched.replaced})
        return
    terminal.console.print(str(target), markup=False)
    if not options.quiet:
        removed = (
            f"; {format_count(len(fetched.removed), 'file')} of another run removed"
            if fetched.removed
            else ""
        )
        of = f" of {part}" if part.startswith(f"{Part.OUTPUTS}/") else ""
        terminal.note(f"{format_count(fetched.files, 'file')}{of}, {fetched.new} of them new{removed}")
