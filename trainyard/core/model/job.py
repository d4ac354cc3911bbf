"""The job: what the user wrote, with every default filled in, and every key of its file (`key`): the reader
(core/jobfile), trainyard/job.schema.json and the table of docs/job-file.md come from here.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, assert_never

from trainyard.core.model.images.image import AMI
from trainyard.core.model.instance_types import Market
from trainyard.core.model.job_fields import (
    ANY_TYPES,
    CPU_TYPES,
    DISK_GIB,
    ZONES,
    Arguments,
    CommandLine,
    CountOrRange,
    ImageName,
    ProgressPattern,
    ShellText,
    Uri,
    Variable,
    Variables,
)
from trainyard.core.model.progress import EXAMPLE
from trainyard.core.model.yard.policy import Policy
from trainyard.core.values.fields import (
    Choice,
    Count,
    Entries,
    Flag,
    Number,
    Part,
    Record,
    Short,
    Text,
    choices,
    key,
    required,
)
from trainyard.core.values.lazy import dataclass

MOST_HOSTS = 50
MOST_ARGS = 100
MOST_DATA = 16
MOST_LABELS = 20
LABEL = r"[A-Za-z0-9 _.:/=+@-]{}"
LABELLED = "letters, digits, spaces and _ . : / = + @ -"
"""What AWS lets every tag be made of."""
ADDRESS = r"[^\s\u0000-\u001f]{1,500}"
MOST_SECRETS = 10
"""What one GetParameters takes, and a session policy has room for."""
MOST_STEPS = 1_000_000_000
MOST_KEPT = 16
"""Hosts in a pool: one transaction of the ledger takes them all."""
MOST_KEPT_MINUTES = 120
MOST_DOLLARS = 100_000.0
NAME = r"[a-z][a-z0-9-]{0,39}"
RUN_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}"
"""As the start and stop documents take it."""
MODULE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
VARIABLE = r"[A-Z_][A-Z0-9_]{0,63}"
NAMED_VARIABLE = "a name of up to 64 capital letters, digits and underscores that begins with no digit"
LAST_PART = r"[A-Za-z0-9_.-]{1,40}"
"""Of the name of a parameter that holds a secret (core/model/names.py)."""
IMAGE = rf"{AMI}|(?!ami-){RUN_ID}"
"""An image's id, or what a run or a family may be called."""
BUILDER_TYPES = ("g4dn.xlarge", "g5.xlarge", "g6.xlarge", "m7i.xlarge")
"""What an image is made on, unless its recipe says so."""
CPU_TYPES_BY_DEFAULT = ("m7i.xlarge", "m6i.xlarge", "m7a.xlarge")

SHIPPED = "training.programs."
PROGRAMS = ("digits", "downpour", "keras_text", "matmul", "mnist", "parameter_server_v1", "replicate")
"""The reference programs that ship with the image, each a module below SHIPPED."""

Scalar = str | int | float | bool


class Strategy(StrEnum):
    SINGLE = "single"
    MIRRORED = "mirrored"
    MULTI_WORKER = "multi_worker"
    PARAMETER_SERVER = "parameter_server"

    @property
    def has_several_hosts(self) -> bool:
        """Whether more than one host may train."""
        match self:
            case Strategy.SINGLE | Strategy.MIRRORED:
                return False
            case Strategy.MULTI_WORKER | Strategy.PARAMETER_SERVER:
                return True
        assert_never(self)

    @property
    def is_asynchronous(self) -> bool:
        """Whether workers train each at its own speed, with parameter servers that hold the variables."""
        match self:
            case Strategy.SINGLE | Strategy.MIRRORED | Strategy.MULTI_WORKER:
                return False
            case Strategy.PARAMETER_SERVER:
                return True
        assert_never(self)


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
        match self:
            case MarketChoice.SPOT:
                return (Market.SPOT,)
            case MarketChoice.ON_DEMAND:
                return (Market.ON_DEMAND,)
            case MarketChoice.SPOT_THEN_ON_DEMAND:
                return (Market.SPOT, Market.ON_DEMAND)
        assert_never(self)


class PoolOrder(StrEnum):
    """How the pools of a market are asked."""

    PRICE = "price"
    SPEED = "speed"


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
    """What runs."""

    source: str | None = key(
        None,
        Uri(folder="programs", ends=(".tar", ".tar.gz", ".tgz")),
        "A tar archive, up to 1 GiB, unpacked and put on the Python path. Or a folder beside the job file, such as "
        "`./src`, which `trainyard submit` packs ([what goes along](programs.md#what-goes-along)). Or a git "
        "repository, `git+https://HOST/PATH@REF`, which it clones. Or an archive in another bucket that the yard reads "
        "([below](#other-buckets)).",
    )
    module: str | None = key(
        None,
        Text(
            r"(?!.{201})" + MODULE,
            "a dotted Python module name of letters, digits and underscores, as in training.programs.digits",
        ),
        "Run as `python -m MODULE`: a module of `program.source`, or without that one of the reference programs, "
        f"{', '.join(f'`{SHIPPED}{program}`' for program in PROGRAMS)}. This, `program.command` or `program.shell`.",
        usual="required, unless there is a `command` or a `shell`",
    )
    command: tuple[Scalar, ...] = key(
        (),
        CommandLine(most=MOST_ARGS, least=1),
        "What every host runs instead, in the folder where `program.source` is unpacked, as in `[torchrun, train.py]`: "
        "a command of `program.requirements` or of the image, or a file of the source (`./run.sh`). No shell reads it: "
        "lines for a shell belong in `program.shell` ([programs.md](programs.md#any-command)).",
        usual="`python -m MODULE`",
    )
    shell: str | None = key(
        None,
        ShellText(),
        "Lines that every host runs instead with `bash -eo pipefail`, in the folder where `program.source` is "
        "unpacked: "
        'the program ends with the first command that fails, also inside a pipe. `program.args` are `"$@"` '
        "([programs.md](programs.md#lines-for-a-shell)).",
        usual="`python -m MODULE`",
    )
    args: Mapping[str, Scalar] | list[Scalar] = key(
        {},
        Arguments(
            name=r"[A-Za-z][A-Za-z0-9_-]{0,63}",
            named="a name of up to 64 letters, digits, hyphens and underscores that begins with a letter",
            most=MOST_ARGS,
        ),
        "What follows module or command: of a mapping `--name value` each (`true`: `--name` alone; `false`: nothing, "
        "the flag is left out; a text that begins with `-`: `--name=value`), of a list each value as it is.",
    )
    environment: Mapping[str, str] = key(
        {},
        Variables(
            name=VARIABLE,
            named=NAMED_VARIABLE,
            most=MOST_ARGS,
            each=Variable(),
        ),
        "Environment variables of the program.",
    )
    secrets: Mapping[str, str] = key(
        {},
        Variables(
            name=VARIABLE,
            named=NAMED_VARIABLE,
            most=MOST_SECRETS,
            each=Text(
                LAST_PART, "the name of a secret, up to 40 letters, digits, dots, hyphens and underscores"
            ),
            plain=False,
        ),
        "Environment variables of the program whose values are secrets: each is the parameter `/YARD/secrets/NAME` of "
        "Parameter Store, a SecureString, and is read on the hosts when the program starts ([below](#secrets)).",
    )
    requirements: str | None = key(
        None,
        Text(
            r"(?![./-])(?!.*(/\.|//))[A-Za-z0-9_./-]{1,200}",
            "a relative path inside program.source, as in requirements.txt",
        ),
        "Python packages to install on every host before the program starts.",
    )
    progress: str | None = key(
        None,
        ProgressPattern(),
        "For a program that reports nothing itself: what is looked for in every line that the chief prints, as "
        f"`{EXAMPLE}` ([programs.md](programs.md#progress)).",
        usual="none: TensorBoard's scalars, where the program writes any",
    )
    expect: tuple[Result, ...] = key((), choices(Result), "Results without which an end with 0 is a failure.")
    strict: bool = key(
        False,
        Flag(),
        "`true`: a program that ends with 0 has failed all the same if its last lines are an uncaught exception, or if "
        "its processes still run. `false`: such a run has succeeded, and every view of it says `succeeded, but ...` "
        "([programs.md](programs.md#how-a-program-ends)).",
    )

    @property
    def called(self) -> str:
        """Return what runs, in a word or a line."""
        if self.shell is not None:
            first, *more = self.shell.strip().splitlines()
            return f"{first} ..." if more else first
        return self.module or " ".join(str(word) for word in self.command)


@dataclass(frozen=True, kw_only=True)
class Data:
    """One data entry: everything under `source`, or the files of it that are a worker's share."""

    source: str = field(
        metadata=required(
            Uri(folder="data", ends=("/",)),
            "All below it is on every host's disk before the program starts, at the path in `TRAINYARD_DATA_NAME`. Or "
            "a folder beside the job file, such as `./data/`, which `trainyard submit` sends along. Or a folder of "
            "another bucket that the yard reads, `s3://NAME/.../` ([below](#other-buckets)).",
        )
    )
    sharding: Sharding = key(
        Sharding.NONE,
        Choice(Sharding),
        "`none`: every host has every file. `file`: each worker has a share of the files of its own; with "
        "`multi_worker` and `parameter_server` only, and with no fewer files than workers.",
    )


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Who trains together, and how."""

    strategy: Strategy = key(
        Strategy.SINGLE,
        Choice(Strategy),
        "`single`: one host. `mirrored`: all GPUs of one host. `multi_worker`: all-reduce over hosts. "
        "`parameter_server`: a chief that coordinates, workers, parameter servers; asynchronous.",
        usual="`single`; `multi_worker` when there are several workers",
    )
    workers: int | Mapping[str, int] = key(
        1,
        CountOrRange(
            count=Count(
                least=1,
                most=MOST_HOSTS,
                because="only workers train, also with parameter_server, whose chief only coordinates",
            )
        ),
        "Hosts that train; `single` and `mirrored` have 1. With `parameter_server` the chief comes on top, unless "
        f"`cluster.chief` is `worker`. All hosts of a run together are {MOST_HOSTS} at most. `{{min: 2, max: 8}}`, "
        "with `multi_worker` only: as many as there are of that, growing and shrinking while it trains "
        "([below](#as-many-workers-as-there-are)).",
    )
    parameter_servers: int = key(
        0,
        Count(least=0, most=MOST_HOSTS),
        "With `parameter_server` from 1 up to the number of workers; 0 with every other strategy.",
    )
    chief: Chief = key(
        Chief.COORDINATOR,
        Choice(Chief),
        "With `parameter_server`: `coordinator`, a host of its own that schedules (`ParameterServerStrategy`, the "
        "runtime library), or `worker`: worker 0 is the chief and `TF_CONFIG` names no other, as programs of "
        "TensorFlow 1 (`compat.v1`) expect that find their chief by task index.",
        usual="`coordinator` with `parameter_server`",
    )
    evaluator: bool = key(
        False,
        Flag(),
        "With `multi_worker` and `parameter_server`: one more host that evaluates the checkpoints as they come "
        "([below](#an-evaluator)). It is no worker, and has no rank.",
    )

    @property
    def least_workers(self) -> int:
        """With fewer it does not train."""
        return self.workers["min"] if isinstance(self.workers, Mapping) else self.workers

    @property
    def most_workers(self) -> int:
        return self.workers["max"] if isinstance(self.workers, Mapping) else self.workers

    @property
    def is_elastic(self) -> bool:
        """Whether attempts may differ in how many workers they have."""
        return self.least_workers < self.most_workers

    @property
    def chief_trains(self) -> bool:
        """Whether the chief is one of the workers."""
        match self.chief:
            case Chief.COORDINATOR:
                return not self.strategy.is_asynchronous
            case Chief.WORKER:
                return True
        assert_never(self.chief)


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What the hosts are. `image` None: the yard's current image; `disk_gib` None: disks as large as the image's."""

    instance_types: tuple[str, ...] = key(
        ("g6.xlarge", "g5.xlarge", "g4dn.xlarge"),
        ANY_TYPES,
        "With GPUs or without, not both. At equal price the order of the list counts. A type that the image does not "
        "work on (P2, P3, and arm64 ones like g5g with an x86_64 image) is not asked, and the plan says why.",
    )
    gpus: int | None = key(
        None,
        Count(least=1, most=8),
        "Instead of `instance_types`: the number of GPUs of each host. The cheapest instance types that have them are "
        "chosen; `trainyard check` and the plan name them.",
        usual="`1` if `gpu` or `gpu_memory` is given",
    )
    gpu: str | None = key(
        None,
        Text(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}", "the name of a GPU, as in H100, L4 or A100-80GB"),
        "Instead of `instance_types`: the kind of GPU.",
        usual="any",
    )
    gpu_memory: float | None = key(
        None,
        Number(most=1000, unit="GB"),
        "Instead of `instance_types`: the memory that each GPU has at least.",
        usual="any",
    )
    cpu_instance_types: tuple[str, ...] = key(
        (),
        CPU_TYPES,
        "For the roles of `cpu_roles`; with `parameter_server`, and with `multi_worker` that has an evaluator. `[]`: "
        "every role is on `instance_types`.",
        usual=f"with `parameter_server` on GPUs `[{', '.join(CPU_TYPES_BY_DEFAULT)}]`",
    )
    cpu_roles: tuple[Role, ...] = key(
        (),
        choices((Role.CHIEF, Role.PS, Role.EVALUATOR)),
        "The roles that run on `cpu_instance_types`; with `multi_worker`, whose chief trains, `evaluator` alone.",
        usual="where there are `cpu_instance_types` `[chief, ps]`; `[ps]` with `cluster.chief: worker`, where the "
        "chief trains; `[evaluator]` with `multi_worker`",
    )
    market: MarketChoice = key(
        MarketChoice.SPOT_THEN_ON_DEMAND,
        Choice(MarketChoice),
        "`spot_then_on_demand`: every spot pool before any on-demand pool.",
    )
    order: PoolOrder = key(
        PoolOrder.PRICE,
        Choice(PoolOrder),
        "`price`: the pools of a market one after another, the cheapest first. `speed`: all of them in one request (in "
        "several where hosts differ in their number of GPUs or how fast their disks are fetched); EC2 takes the one "
        "with the most room on spot, and the cheapest that has room on demand.",
    )
    max_dollars_per_hour: float | None = key(
        None,
        Number(most=10_000, unit="dollars for the whole gang"),
        "Pools above it are not asked.",
        usual="no cap",
    )
    image: str | Mapping[str, str] | None = key(
        None,
        ImageName(
            IMAGE,
            "the id of an image (ami- and 8 to 17 hex digits), of a run, or the name of a family of images",
        ),
        "The image that all hosts start from, in all attempts: an image's id, a run's id (the newest image of that "
        "run) or the name of a family (its newest image: a recipe's name for baked ones, the job's name for "
        '`after.image`); or `{tensorflow: "2.18"}`, the newest baked image with that version. Images of the yard only.',
        usual="the yard's current image",
    )
    zones: tuple[str, ...] = key(
        (),
        ZONES,
        "The only Availability Zones to launch in, by name, as in `[us-east-1a]`; one that the yard has no subnet in "
        "is refused.",
        usual="all of the yard's",
    )
    disk_gib: int | None = key(
        None,
        DISK_GIB,
        "The root disk of each host in GiB, no smaller than the image's. It costs by its size, in the plan, at the "
        "caps and in the bill.",
        usual="as large as the image's",
    )


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """How often a program that uses the runtime saves, and what is kept."""

    steps: int = key(
        0,
        Count(least=0, most=MOST_STEPS),
        "A program that uses the runtime saves every so many steps. 0: by the clock alone.",
    )
    seconds: float = key(
        120.0,
        Number(least=1, most=86_400, unit="seconds"),
        "However long its steps take, it saves at least this often.",
    )
    keep: int = key(3, Count(least=1, most=100), "So many checkpoints stay in the bucket.")
    resume: str | None = key(
        None,
        Text(RUN_ID, "the id of a run whose last checkpoint or outputs are in the bucket"),
        "The run that this one continues, for instance one that stopped at its cap: from its last checkpoint or, if it "
        "has none, with its [outputs](#outputs) in the working folder. Both stay where they are.",
    )


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What becomes of the files that a program writes into its working folder."""

    keep: bool = key(
        True,
        Flag(),
        "Keep every file that a program creates or changes in its working folder: in the bucket, under `outputs/` of "
        "the run, while the program runs and at its end ([below](#outputs)).",
    )
    max_gib: float = key(
        100.0,
        Number(most=5_000, unit="GiB"),
        "Keep at most this much of each host. What is left out is listed in the run's log, the largest files first.",
    )
    restore: bool | None = key(
        None,
        Flag(),
        "`true`: after an interruption, the new attempt finds its outputs in the working folder again, and a run with "
        "`checkpoints.resume` finds those of the run that it names. `false`: it never does.",
        usual="`true` for a run that has no checkpoint in `${checkpoints}`",
    )


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where a run stops."""

    hours: float = key(
        6.0,
        Number(most=720, unit="hours"),
        "Counted from the run's admission, so waiting for capacity counts. At its hours or its dollars a run saves, "
        "stops and says how to go on.",
    )
    dollars: float = key(
        20.0,
        Number(most=MOST_DOLLARS, unit="dollars"),
        "Instance hours and root disks of all attempts together.",
    )
    restarts: int = key(
        5,
        Count(least=0, most=20),
        "New attempts after an interruption, a lost host or a failed start. A program's own error is never tried "
        "again.",
    )
    wait_minutes: float = key(
        60.0,
        Number(most=1440, unit="minutes"),
        "How long one search for capacity goes on when every pool is full. It asks them all in rounds; the pauses "
        "between rounds double from 30 seconds up to 2 minutes, or to a hundredth of this time for each request of a "
        "round where that is longer. As long a run waits for its place in a yard that is full.",
    )


@dataclass(frozen=True, kw_only=True)
class After:
    """What becomes of the hosts."""

    hosts: Hosts = key(
        Hosts.TERMINATE,
        Choice(Hosts),
        "`stop` with `hardware.market: on_demand` only: EC2 cannot stop spot hosts of a fleet.",
    )
    image: ImageWhen = key(
        ImageWhen.NEVER,
        Choice(ImageWhen),
        "Whether to make an image of the chief's disk when the run is over.",
    )


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Which hosts wait for another run when this one has ended well."""

    keep: int = key(
        0,
        Count(least=0, most=MOST_KEPT),
        "So many hosts of a run that has succeeded stay on, wiped, for the next run of the yard that asks for just "
        "such ones ([recipe](recipes/pool.md)): no boot, and no fetching of data that have not changed. No more than "
        "the run has on `instance_types`, and than the yard lets wait at once (`most_pool_hosts`). What they cost "
        "while they wait is this run's.",
        usual="`0`: none",
    )
    minutes: float = key(
        30.0,
        Number(least=1, most=MOST_KEPT_MINUTES, unit="minutes"),
        "Those that no run has taken by then end.",
    )


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The commit that the program is from; `trainyard submit` fills it in."""

    commit: str | None = key(
        None,
        Text(r"[0-9a-f]{40}([0-9a-f]{24})?", "the whole id of a commit"),
        "The commit that the program is from. `trainyard submit` writes this section if `program.source` is a folder "
        "in a git work tree, or a repository.",
    )
    repository: str | None = key(
        None,
        Text(ADDRESS, "an address without spaces"),
        "The repository, without a user's name and password.",
    )
    ref: str | None = key(None, Text(ADDRESS, "a name without spaces"), "The branch or tag.")
    dirty: bool = key(False, Flag(), "Whether the folder had changes that no commit has.")
    diff: str | None = key(
        None,
        Text(r"programs/[!-~]{1,200}", "a key below programs/"),
        "Where in the bucket these changes are, as far as git tracks their files: up to 1 MiB of a diff.",
    )

    @property
    def described(self) -> str:
        """The commit in a line: abc1234 (main) of https://..., with changes that are in no commit."""
        ref = f" ({self.ref})" if self.ref else ""
        of = f" of {self.repository}" if self.repository else ""
        changes = ", with changes that are in no commit" if self.dirty else ""
        return f"{(self.commit or '')[:12]}{ref}{of}{changes}"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job without faults: s3 URIs are whole (BUCKET resolved), every default filled in."""

    name: str = field(
        metadata=required(
            Text(NAME, "a name of 1 to 40 lower-case letters, digits and hyphens that begins with a letter"),
            "The run's id is the name and 8 hex digits of the object's version.",
        )
    )
    program: Program = field(metadata=required(Record(Program), "What runs."))
    data: Mapping[str, Data] = key(
        {},
        Entries(
            name=r"[a-z][a-z0-9_]{0,31}",
            named="a name of up to 32 lower-case letters, digits and underscores that begins with a letter",
            most=MOST_DATA,
            each=Short(Data, "source"),
        ),
        "What the program reads: each entry a folder of the bucket, or a mapping with more to say about it.",
    )
    cluster: Cluster = key(Cluster(), Record(Cluster), "Who trains together, and how.")
    hardware: Hardware = key(Hardware(), Record(Hardware), "What the hosts are.")
    checkpoints: Checkpoints = key(Checkpoints(), Record(Checkpoints), "How often to save, and what to keep.")
    outputs: Outputs = key(
        Outputs(), Record(Outputs), "What becomes of the files in a program's working folder."
    )
    limits: Limits = key(Limits(), Record(Limits), "Where the run stops.")
    after: After = key(After(), Record(After), "What becomes of the hosts.")
    pool: Pool = key(Pool(), Record(Pool), "Which hosts stay on for the next run.")
    labels: Mapping[str, str] = key(
        {},
        Entries(
            name=r"(?!aws:|trainyard:)" + LABEL.format("{1,128}"),
            named=f"a name of 1 to 128 {LABELLED} that begins with neither aws: nor trainyard:",
            most=MOST_LABELS,
            each=Text(LABEL.format("{0,256}"), f'a text of up to 256 {LABELLED}; quote numbers: "1"'),
        ),
        "What people find and count their runs by: in the run's row, its summary and lists.",
    )
    policy: Mapping[str, Any] = key(
        {},
        Part(Policy),
        "When patrol calls a host of this job idle and what it does then. It matters for hosts that outlive the run "
        "(`after.hosts: stop`).",
    )
    origin: Origin = key(Origin(), Record(Origin), "Which commit the program is from.")

    @property
    def roles(self) -> tuple[Role, ...]:
        """The role of every host of an attempt that has as many workers as the job allows, the chief's first."""
        cluster = self.cluster
        workers = [Role.WORKER] * (cluster.most_workers - cluster.chief_trains)
        servers = [Role.PS] * cluster.parameter_servers
        return (Role.CHIEF, *workers, *servers, *[Role.EVALUATOR] * cluster.evaluator)

    @property
    def cpu_gang(self) -> int:
        """How many of them make the second gang, on `hardware.cpu_instance_types`."""
        return sum(role in self.hardware.cpu_roles for role in self.roles)

    @property
    def gang(self) -> int:
        """How many hosts one attempt has at most, both gangs together."""
        return len(self.roles)

    def with_workers(self, workers: int) -> "Job":
        """The same job with just so many."""
        return replace(self, cluster=replace(self.cluster, workers=workers))

    def with_most_workers(self, most: int) -> "Job":
        """The same job with no more of them, which it may have."""
        least = self.cluster.least_workers
        return replace(self, cluster=replace(self.cluster, workers={"min": least, "max": most}))

    @property
    def at_least(self) -> "Job":
        """The same job with as few workers as it may have."""
        return self.with_workers(self.cluster.least_workers)


def one_host_job(
    name: str, hardware: Hardware, *, hours: float, wait_minutes: float, restarts: int = 0
) -> Job:
    """A job without a program, as bake and launch admit it, so that Plan and Launch serve them too: one host of one of
    `hardware.instance_types`, to which no start order is sent and whose lease ends `hours` after the run's admission.

    `wait_minutes`: how long one search for capacity goes on; `restarts`: how many more hosts may follow the first. Its
    dollars are the most that a job file may allow: hours and `max_dollars_per_hour` limit it."""
    limits = Limits(hours=hours, dollars=MOST_DOLLARS, restarts=restarts, wait_minutes=wait_minutes)
    return Job(name=name, program=Program(), hardware=hardware, limits=limits)
