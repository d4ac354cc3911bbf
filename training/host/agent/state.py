"""What the agent must still know after it was restarted."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from training.host.orders import write_whole


@dataclass(frozen=True, slots=True)
class State:
    """`phase`: new (nothing on the disk is of this run and instance yet), fetching, waiting (for an order), running (a
    program), done (nothing left to do). `checkpoint_...`: the last checkpoint that is whole in the bucket or was
    restored, with the fingerprint of its folder (checkpoints.upload)."""

    run: str
    instance: str
    attempt: int
    phase: str = "new"
    checkpoint_step: int = -1
    checkpoint_folder: str = ""

    def but(self, **changes: Any) -> "State":
        return replace(self, **changes)

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps(asdict(self)))


def recall(path: Path, *, run: str, instance: str, attempt: int) -> State:
    """What an earlier agent of this very instance and run left; else the beginning."""
    begin = State(run=run, instance=instance, attempt=attempt)
    try:
        state = State(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return begin
    return state if (state.run, state.instance) == (run, instance) else begin
