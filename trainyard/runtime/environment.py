"""What the host tells a program, as values (docs/contracts/programs.md, "Environment")."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

AT_HOME = Path("training-output")
DATA, SHARDING = "TRAINYARD_DATA_", "_sharding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """`hosted`: a host agent watches over this program; it carries results away and keeps the disk tidy.

    `sharded` names the data entries of which only this worker's own files lie here. `strategy` is None where nobody
    said it. `checkpoint_steps` 0: by the clock alone. `devices` stand in for GPUs where there are none.
    """

    hosted: bool
    run: str
    job: Path | None
    image: str
    strategy: str | None
    tf_config: str | None
    devices: int
    form_seconds: float
    checkpoint_steps: int
    checkpoint_seconds: float
    checkpoint_keep: int
    checkpoints: Path
    tensorboard: Path
    model: Path
    metrics: Path
    progress: Path
    data: Mapping[str, Path]
    sharded: frozenset[str]

    @staticmethod
    def from_os(told: Mapping[str, str] = os.environ) -> "Environment":
        def path(name: str, at_home: str) -> Path:
            return Path(told.get(f"TRAINYARD_{name}", AT_HOME / at_home))

        def word(name: str, otherwise: str) -> str:
            return told.get(f"TRAINYARD_{name}") or otherwise

        entries = {key[len(DATA) :].lower(): told[key] for key in sorted(told) if key.startswith(DATA)}
        return Environment(
            hosted="TRAINYARD_RUN" in told,
            run=word("RUN", ""),
            job=Path(told["TRAINYARD_JOB"]) if "TRAINYARD_JOB" in told else None,
            image=word("IMAGE", ""),
            strategy=told.get("TRAINYARD_STRATEGY"),
            tf_config=told.get("TF_CONFIG"),
            devices=int(word("DEVICES", "2")),
            form_seconds=float(word("FORM_SECONDS", "100")),
            checkpoint_steps=int(word("CHECKPOINT_STEPS", "0")),
            checkpoint_seconds=float(word("CHECKPOINT_SECONDS", "120")),
            checkpoint_keep=int(word("CHECKPOINT_KEEP", "3")),
            checkpoints=path("CHECKPOINTS", "checkpoints"),
            tensorboard=path("TENSORBOARD", "tensorboard"),
            model=path("MODEL", "model"),
            metrics=path("METRICS", "metrics.json"),
            progress=path("PROGRESS", "progress.jsonl"),
            data={name: Path(said) for name, said in entries.items() if not _is_policy(name, entries)},
            sharded=frozenset(
                name.removesuffix(SHARDING)
                for name, said in entries.items()
                if _is_policy(name, entries) and said == "file"
            ),
        )

    def data_folder(self, name: str) -> Path:
        """Where the data entry `name` lies; without Trainyard say it in TRAINYARD_DATA_<NAME>."""
        name = name.replace("-", "_")
        if name not in self.data:
            raise SystemExit(
                f"this program needs data.{name}: name it in the job file, "
                f"or set {DATA}{name.upper()} to a folder when you run it by hand"
            )
        return self.data[name]

    def job_name(self) -> str:
        """Empty without Trainyard."""
        return str(json.loads(self.job.read_text())["name"]) if self.job else ""

    def only_workers_have(self, folder: Path) -> bool:
        """Whether the chief of parameter servers, which trains nothing itself, finds no files in `folder`."""
        return self.strategy == "parameter_server" and self.holds_own_files_only(folder)

    def holds_own_files_only(self, folder: Path) -> bool:
        """Whether `folder` lies in a data entry of which each worker has other files."""
        return any(folder.is_relative_to(self.data[name]) for name in self.sharded)


def _is_policy(name: str, entries: Mapping[str, str]) -> bool:
    """Whether TRAINYARD_DATA_<NAME> is no folder but says how another entry is shared out."""
    return name.endswith(SHARDING) and name.removesuffix(SHARDING) in entries
