"""The agent's state, which survives a restart of the agent."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from training.host.orders import write_whole


@dataclass(frozen=True, slots=True)
class State:
    """The state of this host's work for its run."""

    run: str
    instance: str
    attempt: int
    phase: str = "new"
    """new (the disk holds nothing of this run and instance), fetching, waiting (for an order), running (a program),
    done (no work is left)."""
    checkpoint_step: int = -1
    """The last checkpoint that is whole in the bucket, or that was restored."""
    checkpoint_folder: str = ""
    """The fingerprint of its folder (checkpoints.upload)."""

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps(asdict(self)))


def recall(path: Path, *, run: str, instance: str, attempt: int) -> State:
    """Return the state that an earlier agent of this instance and run has saved, or a new one."""
    begin = State(run=run, instance=instance, attempt=attempt)
    try:
        state = State(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return begin
    return state if (state.run, state.instance) == (run, instance) else begin
