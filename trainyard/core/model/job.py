"""The job as the user wrote it, with every default filled in.

The reader (core/jobfile), trainyard/job.schema.json and the table of docs/job-file.md come from the `key` declarations
of this file, `program.py` and `hardware.py`.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from trainyard.core.model.batch import Predict
from trainyard.core.model.condition import CONDITION
from trainyard.core.model.hardware import Cluster, Hardware
from trainyard.core.model.job_fields import MOST_TARGETS, NAME, RUN_ID, TARGET, TARGET_NAMED
from trainyard.core.model.model_names import NAMES
from trainyard.core.model.program import Data, Origin, Program, Telemetry, Tracker
from trainyard.core.model.schedule import Schedule, StartAfter
from trainyard.core.model.study import Study
from trainyard.core.model.yard.policy import Policy
from trainyard.protocol.cluster import Role
from trainyard.protocol.ledger.claim import DEFAULT_PRIORITY
from trainyard.protocol.objective import Objective
from trainyard.protocol.tags import PREFIX
from trainyard.values.fields import Choice, Count, Flag, Number, OneOrSeveral, Text, key, required, texts
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Entries, Optional, Part, Record, Short, section_key
from trainyard.values.validation import any_of

MOST_DATA = 16
MOST_LABELS = 20
LABEL = r"[A-Za-z0-9 _.:/=+@-]{}"
LABELLED = "letters, digits, spaces and _ . : / = + @ -"
"""The characters that AWS allows in every tag."""
MOST_STEPS = 1_000_000_000
MOST_KEPT = 16
"""The most warm hosts of a run. One transaction of the ledger claims them all."""
MOST_KEPT_MINUTES = 120
MOST_DOLLARS = 100_000.0


class Hosts(StrEnum):
    """The fate of the hosts after the run."""

    TERMINATE = "terminate"
    STOP = "stop"


class ImageWhen(StrEnum):
    """The condition for an image of the chief's disk after the run."""

    NEVER = "never"
    ON_SUCCESS = "on_success"
    ALWAYS = "always"


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """The intervals between the checkpoints of a program that uses the runtime, and the number of kept checkpoints."""

    steps: int = key(
        0,
        Count(least=0, most=MOST_STEPS),
        "The number of steps between two checkpoints of a program that uses the runtime. 0: only the time decides.",
    )
    seconds: float = key(
        120.0,
        Number(least=1, most=86_400, unit="seconds"),
        "The longest time between two checkpoints of a program that uses the runtime.",
    )
    keep: int = key(3, Count(least=1, most=100), "The number of checkpoints to keep in the bucket.")
    resume: str | None = key(
        None,
        Text(RUN_ID, "the id of a run whose last checkpoint or outputs are in the bucket"),
        "The run to continue, for example a run that stopped at its cap: from its last checkpoint or, if it has no "
        "checkpoint, with its [outputs](#outputs) in the working folder. Its files do not change.",
    )


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The files of a program's working folder that are kept."""

    keep: bool = key(
        True,
        Flag(),
        "Keep every file that a program creates or changes in its working folder: under `outputs/` of the run in the "
        "bucket, while the program runs and at its end ([below](#outputs)).",
    )
    max_gib: float = key(
        100.0,
        Number(most=5_000, unit="GiB"),
        "The most data to keep per host. The log of the run lists what is left out, the largest files first.",
    )
    restore: bool | None = key(
        None,
        Flag(),
        "`true`: after an interruption, the new attempt starts with the outputs in its working folder, and a run "
        "with `checkpoints.resume` starts with the outputs of the run that it names. `false`: the working folder "
        "starts without outputs.",
        usual="`true` for a run that has no checkpoint in `${checkpoints}`",
    )

    def are_restored(self, *, has_checkpoint: bool = False) -> bool:
        """Return True if a later attempt, or a run that resumes this one, begins with the outputs."""
        return self.keep and (not has_checkpoint if self.restore is None else self.restore)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a run."""

    hours: float = key(
        6.0,
        Number(most=720, unit="hours"),
        "The longest duration of the run since its admission. Waiting for capacity counts. "
        "At its hours or its dollars a run saves, stops, and prints how to continue.",
    )
    dollars: float = key(
        20.0,
        Number(most=MOST_DOLLARS, unit="dollars"),
        "The most that the run may cost: instance hours and root disks of all attempts together.",
    )
    restarts: int = key(
        5,
        Count(least=0, most=20),
        "The number of new attempts after an interruption, a lost host or a failed start. An error of the program "
        "never starts a new attempt.",
    )
    wait_minutes: float = key(
        60.0,
        Number(most=1440, unit="minutes"),
        "The longest search for capacity when every capacity pool is full. The run asks all pools in rounds; the "
        "pauses between rounds double from 30 seconds up to 2 minutes, or up to a hundredth of this time for each "
        "request of a round if that is longer. A run also waits at most this long for its turn in a full yard.",
    )


@dataclass(frozen=True, kw_only=True)
class NewVersion:
    """The version of a model that a successful run creates."""

    name: str = field(metadata=required(NAMES, "The name of the model ([models](tasks/models.md))."))
    alias: str | None = key(
        None,
        NAMES,
        "The alias that names the version once it is ready, as in `candidate`. It moves only if the submitter owns "
        "the model.",
    )
    when: str | None = key(
        None,
        Text(CONDITION, "a metric, one of >= <= > <, and a number, as in accuracy >= 0.97"),
        "The condition for a version: a metric of `metrics.json` and its limit.",
    )


@dataclass(frozen=True, kw_only=True)
class After:
    """Actions at the end of a run."""

    hosts: Hosts = key(
        Hosts.TERMINATE,
        Choice(Hosts),
        "`stop` requires `hardware.market: on_demand`, because EC2 cannot stop the spot hosts of a fleet.",
    )
    image: ImageWhen = key(
        ImageWhen.NEVER,
        Choice(ImageWhen),
        "When to make an image of the chief's disk at the end of the run.",
    )
    model: NewVersion | None = key(
        None,
        Optional(NewVersion),
        "The model that gets a version from a successful run. A study creates one of its best trial.",
    )


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The warm hosts that a successful run keeps for the next run."""

    keep: int = key(
        0,
        Count(least=0, most=MOST_KEPT),
        "The number of hosts that stay after a successful run, wiped, for the next run of the yard that needs hosts "
        "of this type, image and disk ([example](examples/pool.md)). Such a run starts without a boot, and does not "
        "load unchanged data again. At most the number of hosts on `instance_types`, and at most `most_pool_hosts` "
        "of the yard. Their waiting time is charged to this run.",
        usual="`0`: none",
    )
    minutes: float = key(
        30.0,
        Number(least=1, most=MOST_KEPT_MINUTES, unit="minutes"),
        "How long these hosts wait for the next run before they end.",
    )


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job without faults: S3 URIs without the placeholder BUCKET, and every default filled in."""

    name: str = field(
        metadata=required(
            Text(NAME, "a name of 1 to 40 lower-case letters, digits and hyphens that begins with a letter"),
            "The name of the job. The ID of a run is this name and 8 hex digits of the object's version.",
        )
    )
    program: Program = field(metadata=required(Record(Program), "The program to run."))
    data: Mapping[str, Data] = key(
        {},
        Entries(
            name=r"[a-z][a-z0-9_]{0,31}",
            named="a name of up to 32 lower-case letters, digits and underscores that begins with a letter",
            most=MOST_DATA,
            each=Short(Data, "source"),
        ),
        "The data of the program. Each entry is a folder of the bucket, or a mapping with more settings.",
    )
    cluster: Cluster = section_key(Cluster, "The hosts that train together.")
    hardware: Hardware = section_key(Hardware, "The type of the hosts.")
    checkpoints: Checkpoints = section_key(
        Checkpoints, "How often to save, and how many checkpoints to keep."
    )
    outputs: Outputs = section_key(Outputs, "The files in the program's working folder to keep.")
    limits: Limits = section_key(Limits, "The limits of the run.")
    after: After = section_key(
        After, "Their state after the run: ended or stopped, and with or without an image."
    )
    pool: Pool = section_key(Pool, "The warm hosts to keep for the next run.")
    labels: Mapping[str, str] = key(
        {},
        Entries(
            name=rf"(?!aws:|{PREFIX})" + LABEL.format("{1,128}"),
            named=f"a name of 1 to 128 {LABELLED} that begins with neither aws: nor {PREFIX}",
            most=MOST_LABELS,
            each=Text(LABEL.format("{0,256}"), f'a text of up to 256 {LABELLED}; quote numbers: "1"'),
        ),
        "Labels to find and group runs: in the run's row, its summary and lists.",
    )
    notify: tuple[str, ...] = key(
        (),
        texts(TARGET, TARGET_NAMED, most=MOST_TARGETS, distinct=True),
        "The [webhooks](tasks/notifications.md) that get the notifications of the run, as in `[slack:ml, me]`. "
        "Webhooks for all runs need no entry.",
    )
    objective: Objective | None = key(
        None,
        Optional(Objective),
        "The metric that compares runs of the job. The program "
        "[reports it](programs.md#metrics-of-your-own).",
        usual="none",
    )
    track: tuple[Tracker, ...] = key(
        (),
        OneOrSeveral(each=Choice(Tracker), named=any_of(tuple(Tracker))),
        "Experiment trackers that get the run's parameters, metrics, lineage and model, without a line in the program. "
        "Their own variables in `program.environment` or `program.secrets` have the address and the key "
        "([trackers](tasks/trackers.md)).",
        usual="none",
    )
    policy: Mapping[str, Any] = key(
        {},
        Part(Policy),
        "When patrol considers a host of this job idle, and what it does then. Applies to hosts that outlive the run "
        "(`after.hosts: stop`).",
    )
    predict: Predict | None = key(
        None,
        Optional(Predict),
        "Predictions of a model for the rows of many files ([batches](tasks/models.md#batches)), instead of `program` "
        "and `data`.",
        usual="none",
    )
    study: Study | None = key(
        None, Optional(Study), "The search for the best parameters: several trials of this job."
    )
    schedule: Schedule | None = key(
        None,
        Optional(Schedule),
        "When runs of the job start ([schedules](tasks/schedules.md)). Submitting such a job starts no run.",
        usual="none",
    )
    start_after: StartAfter | None = key(
        None,
        Optional(StartAfter),
        "The runs that must end before the run starts ([chains](tasks/schedules.md#chains)).",
        usual="none",
    )
    priority: int = key(
        DEFAULT_PRIORITY,
        Count(least=0, most=100),
        "In a full yard, the waiting run with the highest priority starts next "
        "([a full yard](tasks/waiting-and-failing.md#the-yard-is-full)). Among runs of the same priority, the run that "
        "has waited longest starts next.",
    )
    origin: Origin = section_key(Origin, "The commit of the program.")
    telemetry: Telemetry | None = None
    """The receiver that Admit found in the settings of the yard; None without one."""
    nccl_check_seconds: int | None = None
    """The time limit that Admit found in the settings of the yard for the check of the gang's collectives; None without
    a check."""

    @property
    def trackers(self) -> tuple[Tracker, ...]:
        """Return the trackers of the job, and OpenTelemetry if the yard has a receiver for all runs."""
        more = (Tracker.OTEL,) if self.telemetry and Tracker.OTEL not in self.track else ()
        return (*self.track, *more)

    @property
    def roles(self) -> tuple[Role, ...]:
        """Return the role of each host of an attempt with the most workers, the chief first."""
        cluster = self.cluster
        workers = [Role.WORKER] * (cluster.most_workers - cluster.chief_trains)
        servers = [Role.PS] * cluster.parameter_servers
        return (Role.CHIEF, *workers, *servers, *[Role.EVALUATOR] * cluster.evaluator)

    @property
    def cpu_gang(self) -> int:
        """Return the number of hosts in the second gang, on `hardware.cpu_instance_types`."""
        return sum(role in self.hardware.cpu_roles for role in self.roles)

    @property
    def gang(self) -> int:
        """Return the most hosts of one attempt, both gangs together."""
        return len(self.roles)

    def with_workers(self, workers: int) -> "Job":
        """Return the job with exactly this number of workers."""
        return replace(self, cluster=replace(self.cluster, workers=workers))

    def with_most_workers(self, most: int) -> "Job":
        """Return the job with at most this number of workers."""
        least = self.cluster.least_workers
        return replace(self, cluster=replace(self.cluster, workers={"min": least, "max": most}))

    @property
    def at_least(self) -> "Job":
        """Return the job with the fewest workers that it may have."""
        return self.with_workers(self.cluster.least_workers)


def one_host_job(
    name: str, hardware: Hardware, *, hours: float, wait_minutes: float, restarts: int = 0
) -> Job:
    """Return the job of a bake or a dev host, which has no program, for Plan and Launch.

    It has one host of `hardware.instance_types`, which receives no start order. The host's lease ends `hours` after the
    admission. One search for capacity takes at most `wait_minutes`, and `restarts` more hosts may follow the first.
    Only hours and `max_dollars_per_hour` limit the cost.
    """
    limits = Limits(hours=hours, dollars=MOST_DOLLARS, restarts=restarts, wait_minutes=wait_minutes)
    return Job(name=name, program=Program(), hardware=hardware, limits=limits)
