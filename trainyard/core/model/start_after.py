"""The section `start_after` of a job file: the runs that must end before the run starts."""

from dataclasses import field
from enum import StrEnum

from trainyard.core.model.job_fields import RUN_ID
from trainyard.values.fields import Choice, Several, Text, key, required
from trainyard.values.lazy import dataclass

MOST_RUNS = 16


class When(StrEnum):
    """The end of another run that lets this run start."""

    SUCCESS = "success"
    """It must succeed."""
    END = "end"
    """Any end."""


@dataclass(frozen=True, kw_only=True)
class StartAfter:
    """Other runs, and how they must end."""

    runs: tuple[str, ...] = field(
        metadata=required(
            Several(
                each=Text(RUN_ID, "the id of a run"),
                named=f"1 to {MOST_RUNS} different ids of runs",
                least=1,
                most=MOST_RUNS,
            ),
            "The ids of runs or studies of the yard. They must exist, so that no runs wait for each other.",
        )
    )
    when: When = key(
        When.SUCCESS,
        Choice(When),
        "`success`: the run starts once all of them have succeeded, and is refused if one ends in another way. `end`: "
        "the run starts once all of them have ended.",
    )
