"""What the host tells a program, as values (docs/contracts.md, "The host's environment for a program")."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

AT_HOME = Path("training-output")


@dataclass(frozen=True, slots=True)
class Environment:
    """`hosted`: a host agent watches over this program; it carries results away and keeps the disk tidy."""

    hosted: bool
    checkpoints: Path
    tensorboard: Path
    model: Path
    metrics: Path
    progress: Path
    data: Mapping[str, Path]
    tf_config: str | None

    @staticmethod
    def from_os(told: Mapping[str, str] = os.environ) -> "Environment":
        def path(name: str, at_home: str) -> Path:
            return Path(told.get(f"TRAINYARD_{name}", AT_HOME / at_home))

        prefix = "TRAINYARD_DATA_"
        return Environment(
            hosted="TRAINYARD_RUN" in told,
            checkpoints=path("CHECKPOINTS", "checkpoints"),
            tensorboard=path("TENSORBOARD", "tensorboard"),
            model=path("MODEL", "model"),
            metrics=path("METRICS", "metrics.json"),
            progress=path("PROGRESS", "progress.jsonl"),
            data={
                key[len(prefix) :].lower(): Path(told[key]) for key in sorted(told) if key.startswith(prefix)
            },
            tf_config=told.get("TF_CONFIG"),
        )

    def data_folder(self, name: str) -> Path:
        """Where the data entry `name` lies; without Trainyard say it in TRAINYARD_DATA_<NAME>."""
        if name not in self.data:
            raise SystemExit(
                f"this program needs data.{name}: name it in the job file, "
                f"or set TRAINYARD_DATA_{name.upper()} to a folder when you run it by hand"
            )
        return self.data[name]
