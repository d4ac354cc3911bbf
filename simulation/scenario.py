"""A scenario, and the job file of its runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from simulation.world.world import BEGINNING

if TYPE_CHECKING:
    from simulation.yard import Yard

STEPS, STEP_SECONDS, CHECKPOINT_STEPS = 40, 2.0, 10
SHORT = {"module": "training.programs.digits", "args": {"steps": 4, "step-seconds": STEP_SECONDS}}
"""A short program. Scenarios with warm hosts test how a run gets and leaves the hosts, so the program hardly matters.
"""


@dataclass(frozen=True)
class Scenario:
    """Runs that are started in a yard, and what must hold at their end."""

    name: str
    what: str
    begin: Callable[[Yard], None]
    """Starts the runs."""
    longest: timedelta = timedelta(hours=3)
    """The time from the start within which every run must have ended."""
    gang: int = 0
    """The number of hosts that each attempt must have, or may have at most; 0 if the scenario trains nothing."""
    least: int = 0
    """The minimum number of hosts of each attempt; 0: `gang`."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """The settings of the yard that differ from the defaults."""
    stays: int = 0
    """The number of hosts that stay after the run has succeeded."""
    over: Callable[[Yard], bool] = lambda yard: bool(yard.runs()) and yard.all_over()
    """Returns True once the scenario is complete."""
    since: str = ""
    """The first fault point that only this scenario has. Earlier single faults are tried in another scenario."""
    until: str = ""
    """The first fault point after the part that only this scenario has. Later single faults are tried in another
    scenario."""
    pool_minutes: float | None = None
    """The minutes for which its jobs keep hosts warm."""
    refused: frozenset[str] = frozenset()
    """Names of the runs that must be refused."""
    resumed: Mapping[str, str] = field(default_factory=dict)
    """Names of runs, with the job whose last checkpoint the run must resume from."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """Names of jobs whose runs must not succeed, with their outcome."""
    beginning: datetime = BEGINNING
    times: Mapping[str, Sequence[datetime]] = field(default_factory=dict)
    """Names of schedules, with the only times at which they may start runs."""
    versions: frozenset[str] = frozenset()
    """Labels of the versions that must be ready at the end."""
    default: int | None = None
    """The version that `default` must name at the end."""
    rolled_back: int | None = None
    """The version whose canary patrol must have rolled back."""
    cpu_seconds: float | None = None
    """The processor time of a world that takes longer than others. It is simulated only if it is named."""

    def outcome_of(self, run: str) -> str | None:
        """Return the outcome that the run must have instead of success."""
        return self.ends.get(run.rpartition("-")[0])


HARDWARE: dict[str, Any] = {
    "instance_types": ["g6.xlarge", "g5.xlarge", "g4dn.xlarge"],
    "market": "spot_then_on_demand",
    "max_dollars_per_hour": 8.0,
}


def job(name: str, cluster: Mapping[str, Any], **more: Any) -> bytes:
    """Return a job file. Its program takes 40 steps of 2 s and saves a checkpoint every 10 steps."""
    args = {"steps": STEPS, "step-seconds": STEP_SECONDS}
    document = {
        "name": name,
        "program": {"module": "training.programs.digits", "args": args},
        "cluster": cluster,
        "hardware": HARDWARE,
        "checkpoints": {"steps": CHECKPOINT_STEPS},
        "limits": {"hours": 2, "dollars": 20, "restarts": 3, "wait_minutes": 20},
        "after": {"hosts": "terminate", "image": "never"},
    }
    return json.dumps(document | more).encode()
