"""The job: what the user wrote, with every default filled in. jobfile.py reads and checks it.

docs/job-file.md is the reference for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lambdas.core.model import wire
from lambdas.core.model.instance_types import Market

MOST_FAULTS_SHOWN = 40
MOST_DOLLARS = 100_000.0

Scalar = str | int | float | bool


class Strategy(StrEnum):
    SINGLE = "single"
    MIRRORED = "mirrored"
    MULTI_WORKER = "multi_worker"
    PARAMETER_SERVER = "parameter_server"


class Role(StrEnum):
    """What a host is in its cluster, in TensorFlow's words."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


class Chief(StrEnum):
    """What the chief of `parameter_server` is: a coordinator beside the workers (ParameterServerStrategy), or worker 0
    of a cluster without a chief (compat.v1 programs, which find their chief by task index)."""

    COORDINATOR = "coordinator"
    WORKER = "worker"


class MarketChoice(StrEnum):
    SPOT = "spot"
    ON_DEMAND = "on_demand"
    SPOT_THEN_ON_DEMAND = "spot_then_on_demand"

    @property
    def markets(self) -> tuple[Market, ...]:
        """The markets to try, in this order."""
        if self is MarketChoice.SPOT_THEN_ON_DEMAND:
            return (Market.SPOT, Market.ON_DEMAND)
        return (Market(self.value),)


class Hosts(StrEnum):
    """What happens to the hosts after the run."""

    TERMINATE = "terminate"
    STOP = "stop"


class ImageWhen(StrEnum):
    """When the chief's disk becomes an image after the run."""

    NEVER = "never"
    ON_SUCCESS = "on_success"
    ALWAYS = "always"


class Result(StrEnum):
    """What a program that ends with 0 may be asked to leave behind."""

    MODEL = "model"
    METRICS = "metrics"
    CHECKPOINT = "checkpoint"


class Sharding(StrEnum):
    """Which files of a data entry a host gets: all of them, or its share of the files."""

    NONE = "none"
    FILE = "file"


@dataclass(frozen=True, kw_only=True)
class Program:
    """`expect`: results without which an end with 0 is a failure."""

    module: str
    source: str | None = None
    args: Mapping[str, Scalar] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    requirements: str | None = None
    expect: tuple[Result, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Data:
    """One data entry: everything under `source`, or the files of it that are a worker's share."""

    source: str
    sharding: Sharding = Sharding.NONE


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """`workers` train; with `parameter_server` there is a chief beside them, unless worker 0 is it, and perhaps an
    evaluator."""

    strategy: Strategy = Strategy.SINGLE
    workers: int = 1
    parameter_servers: int = 0
    chief: Chief = Chief.COORDINATOR
    evaluator: bool = False

    @property
    def chief_trains(self) -> bool:
        """Whether the chief is one of the workers."""
        return self.strategy is not Strategy.PARAMETER_SERVER or self.chief is Chief.WORKER


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """`cpu_instance_types`: what the roles of `cpu_roles` run on (none: on `instance_types` like the others). `image`:
    an AMI's id, a run's id or a family's name (None: the yard's current image). `zones`: the only Availability Zones
    to launch in (none: all of the yard's; a job file names none)."""

    instance_types: tuple[str, ...] = ("g6.xlarge", "g5.xlarge", "g4dn.xlarge")
    cpu_instance_types: tuple[str, ...] = ()
    cpu_roles: tuple[Role, ...] = ()
    market: MarketChoice = MarketChoice.SPOT_THEN_ON_DEMAND
    max_dollars_per_hour: float | None = None
    image: str | None = None
    zones: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """How often a program that uses the runtime saves (0 steps: by the clock alone), and how many are kept. `resume` is
    the run whose last checkpoint this one goes on from."""

    steps: int = 0
    seconds: float = 120.0
    keep: int = 3
    resume: str | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    hours: float = 6.0
    dollars: float = 20.0
    restarts: int = 5
    wait_minutes: float = 60.0


@dataclass(frozen=True, kw_only=True)
class After:
    hosts: Hosts = Hosts.TERMINATE
    image: ImageWhen = ImageWhen.NEVER


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job without faults: s3 URIs are whole (BUCKET resolved), every default filled in."""

    name: str
    program: Program
    data: Mapping[str, Data] = field(default_factory=dict)
    cluster: Cluster = field(default_factory=Cluster)
    hardware: Hardware = field(default_factory=Hardware)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    limits: Limits = field(default_factory=Limits)
    after: After = field(default_factory=After)
    policy: Mapping[str, Any] = field(default_factory=dict)
    """What of patrol's policy (policy.py) this job's hosts have different."""

    @property
    def roles(self) -> tuple[Role, ...]:
        """The role of every host of one attempt, the chief's first."""
        cluster = self.cluster
        workers = [Role.WORKER] * (cluster.workers - cluster.chief_trains)
        servers = [Role.PS] * cluster.parameter_servers
        return (Role.CHIEF, *workers, *servers, *[Role.EVALUATOR] * cluster.evaluator)

    @property
    def cpu_gang(self) -> int:
        """How many of them make the second gang, on `hardware.cpu_instance_types`."""
        return sum(role in self.hardware.cpu_roles for role in self.roles)

    @property
    def gang(self) -> int:
        """How many hosts one attempt needs, both gangs together."""
        return len(self.roles)

    def to_json(self) -> dict[str, Any]:
        """As admitted: what job.json, cluster.json and the ledger hold."""
        document: dict[str, Any] = wire.to_json(self)
        return document

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Job":
        """A job that was admitted before; for anything else use `check`."""
        return wire.from_json(Job, data)


def one_host_job(
    name: str, hardware: Hardware, *, hours: float, wait_minutes: float, restarts: int = 0
) -> Job:
    """A job without a program, as bake and launch admit it, so that Plan and Launch serve them too: one host of one of
    `hardware.instance_types`, to which no start order is sent and whose lease ends `hours` after the run's admission.

    `wait_minutes`: how long one search for capacity goes on; `restarts`: how many more hosts may follow the first. Hours
    and `max_dollars_per_hour` limit such a host, so its dollars are the most that a job file may allow."""
    limits = Limits(hours=hours, dollars=MOST_DOLLARS, restarts=restarts, wait_minutes=wait_minutes)
    return Job(name=name, program=Program(module=""), hardware=hardware, limits=limits)


@dataclass(frozen=True)
class Fault:
    """One fault: where it is, what was found, what is allowed."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


@dataclass(frozen=True)
class InputFaults:
    """Every fault of a job file, a recipe or an execution's input, in its order.

    `reason` is the text for people, `so` what did not happen because of the faults.
    """

    source: str
    faults: tuple[Fault, ...]
    so: str = " and was not run; nothing was launched"

    @property
    def reason(self) -> str:
        count = "a fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        lines = [f"{self.source} has {count}{self.so}."]
        lines += [f"- {fault}" for fault in self.faults[:MOST_FAULTS_SHOWN]]
        if len(self.faults) > MOST_FAULTS_SHOWN:
            lines.append(f"- and {len(self.faults) - MOST_FAULTS_SHOWN} more")
        return "\n".join(lines).encode("utf-8", "backslashreplace").decode()  # a lone surrogate is no text
