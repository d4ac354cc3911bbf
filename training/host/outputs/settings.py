"""How the job wants its outputs kept: the key `outputs` of the job file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GIB = 1 << 30
MAX_GIB = 100.0


@dataclass(frozen=True, slots=True)
class Settings:
    """`restore` None: a new attempt finds its outputs again if the run has no checkpoint in ${checkpoints}."""

    keep: bool = True
    max_bytes: int = int(MAX_GIB * GIB)
    restore: bool | None = None

    @staticmethod
    def of(job: Mapping[str, Any]) -> "Settings":
        asked = job.get("outputs") or {}
        return Settings(
            keep=asked.get("keep", True),
            max_bytes=int(asked.get("max_gib", MAX_GIB) * GIB),
            restore=asked.get("restore"),
        )

    def restores(self, *, has_checkpoint: bool) -> bool:
        """Return True if an attempt begins with the outputs of the one before it."""
        return self.keep and (not has_checkpoint if self.restore is None else self.restore)
