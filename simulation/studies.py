"""Studies: the jobs of their scenarios, and the faults of a long study."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulation.faults import (
    FAULTS_BY_KIND,
    BootFault,
    EventFault,
    Fault,
    HostFault,
    InvocationFault,
    Kind,
    PoolFault,
    RequestFault,
    is_distinct,
)

if TYPE_CHECKING:
    from simulation.yard import Yard

DRAWN = (
    *(RequestFault.THROTTLED, RequestFault.SERVER_ERRORS, RequestFault.LOST_AFTER, RequestFault.SLOW),
    *(RequestFault.CONFLICT, RequestFault.KILLED_BEFORE, RequestFault.KILLED_AFTER),
    *(
        InvocationFault.OUT_OF_MEMORY,
        InvocationFault.TIMED_OUT,
        InvocationFault.TWICE,
        InvocationFault.REFUSED,
    ),
    *(EventFault.LOST, EventFault.TWICE, EventFault.LATE, EventFault.VERY_LATE),
    *(HostFault.DIES, HostFault.HANGS, HostFault.IS_CUT_OFF, HostFault.WARNED_120, HostFault.WARNED_0),
    *(HostFault.PROGRAM_ERROR, HostFault.SENDS_TWICE, HostFault.SENDS_LATE, BootFault.NEVER_BOOTS),
    *(PoolFault.REFUSES, PoolFault.TOO_FEW, PoolFault.GRANTS_WITH_ERRORS),
)
"""The faults of a long study. Faults that last until the end of the world are left out."""
MOST_DOLLARS = 2.0
"""The dollars of one trial."""


@dataclass(frozen=True)
class Search:
    """The size of a study."""

    trials: int
    parallel: int
    dollars: float
    hours: float = 2.0
    sampler: str = "tpe"
    faults_in_a_thousand: int = 0
    """The faults at a thousand fault points."""

    def begin(self, yard: Yard, job: Mapping[str, Any]) -> None:
        """Upload the job file with the study, and draw its faults."""
        limits = {"hours": 1, "dollars": MOST_DOLLARS, "restarts": 3, "wait_minutes": 20}
        document = {**job, "study": self.section, "limits": limits}
        if self.faults_in_a_thousand:
            yard.plan.draw = lambda kind, point: self.draw(yard.world.seed, kind, point)
        yard.people.upload(f"jobs/{document['name']}.json", json.dumps(document).encode())

    @property
    def section(self) -> dict[str, Any]:
        """Return the section of the job file. Half of the trials stop at their second epoch."""
        return {
            "maximize": "score",
            "parameters": {"args.lr": {"log": [1e-5, 1.0]}},
            "sampler": self.sampler,
            "pruner": {"rule": "median", "start": 2},
            "trials": self.trials,
            "parallel": self.parallel,
            "limits": {"hours": self.hours, "dollars": self.dollars},
        }

    def draw(self, seed: int, kind: Kind, point: str) -> Fault | None:
        """Return a fault for the point, or None for most points. Only the seed and the point decide."""
        number = zlib.crc32(f"{seed}/{kind}/{point}".encode())
        if number % 1000 >= self.faults_in_a_thousand:
            return None
        names = itertools.chain.from_iterable(FAULTS_BY_KIND[kind])
        faults = [Fault(kind, point, str(what)) for what in names if what in DRAWN]
        usable = list(filter(is_distinct, faults))
        return usable[number // 1000 % len(usable)] if usable else None


TWENTY_TRIALS = Search(trials=20, parallel=4, dollars=20.0, hours=4.0)
SHORT_STUDY = Search(trials=4, parallel=2, dollars=5.0)
LONG_STUDY = Search(
    trials=1000, parallel=20, dollars=200.0, hours=40.0, sampler="random", faults_in_a_thousand=3
)
