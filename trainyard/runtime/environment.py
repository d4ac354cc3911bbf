"""The settings that a host passes to a program (docs/contracts/programs.md, "Environment")."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

AT_HOME = Path("training-output")
DATA, SHARDING = "TRAINYARD_DATA_", "_sharding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The settings of a program."""

    hosted: bool
    """True if a host agent runs this program, uploads its results and frees the disk."""
    run: str
    job: Path | None
    image: str
    strategy: str | None
    """None if TF_CONFIG and the GPUs decide."""
    tf_config: str | None
    devices: int
    """Logical devices that replace GPUs on a host without GPUs."""
    form_seconds: float
    checkpoint_steps: int
    """Steps between checkpoints; 0 if only time counts."""
    checkpoint_seconds: float
    checkpoint_keep: int
    checkpoints: Path
    tensorboard: Path
    model: Path
    metrics: Path
    progress: Path
    data: Mapping[str, Path]
    sharded: frozenset[str]
    """Data entries with different files on each worker."""

    @staticmethod
    def from_os(variables: Mapping[str, str] = os.environ) -> "Environment":
        def path(name: str, at_home: str) -> Path:
            return Path(variables.get(f"TRAINYARD_{name}", AT_HOME / at_home))

        def word(name: str, otherwise: str) -> str:
            return variables.get(f"TRAINYARD_{name}") or otherwise

        entries = {
            key[len(DATA) :].lower(): variables[key] for key in sorted(variables) if key.startswith(DATA)
        }
        return Environment(
            hosted="TRAINYARD_RUN" in variables,
            run=word("RUN", ""),
            job=Path(variables["TRAINYARD_JOB"]) if "TRAINYARD_JOB" in variables else None,
            image=word("IMAGE", ""),
            strategy=variables.get("TRAINYARD_STRATEGY"),
            tf_config=variables.get("TF_CONFIG"),
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
        """Return the folder of the data entry `name`; without Trainyard, TRAINYARD_DATA_<NAME> names it."""
        name = name.replace("-", "_")
        if name not in self.data:
            raise SystemExit(
                f"this program needs data.{name}: add it to the job file, "
                f"or set {DATA}{name.upper()} to a folder if you run the program by hand"
            )
        return self.data[name]

    def job_name(self) -> str:
        """Return the name of the job; empty without Trainyard."""
        return str(json.loads(self.job.read_text())["name"]) if self.job else ""

    def only_workers_have(self, folder: Path) -> bool:
        """Return True if only workers of parameter servers have files in `folder`, and their chief has none."""
        return self.strategy == "parameter_server" and self.holds_own_files_only(folder)

    def holds_own_files_only(self, folder: Path) -> bool:
        """Return True if `folder` is in a data entry that is sharded by file."""
        return any(folder.is_relative_to(self.data[name]) for name in self.sharded)


def _is_policy(name: str, entries: Mapping[str, str]) -> bool:
    """Return True if TRAINYARD_DATA_<NAME> is the sharding of another entry instead of a folder."""
    return name.endswith(SHARDING) and name.removesuffix(SHARDING) in entries
