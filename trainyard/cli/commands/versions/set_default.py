"""Let the default of a model, or another alias, name a version."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.models import Alias, Of, Version, print_answer
from trainyard.cli.options import Options
from trainyard.command_line import command_line
from trainyard.protocol.ledger.models import DEFAULT


@command(
    "trainyard versions set-default v1 --model digits",
    "trainyard versions set-default v2 --model digits --alias champion",
)
def set_default(options: Options, version: Version, model: Of, alias: Alias = DEFAULT) -> None:
    """Let the default of a model, or another alias, name a version that is ready."""
    answer = options.find().model(model).set_default(version, alias=alias)
    undo = ("--alias", alias) if alias != DEFAULT else ()
    print_answer(options, answer, f"Undo: {command_line('models', 'rollback', model, *undo)}")
