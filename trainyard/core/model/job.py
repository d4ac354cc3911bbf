"""The job: what the user wrote, with every default filled in, and every key of its file (`key`): the reader
(core/jobfile), trainyard/job.schema.json and the table of docs/job-file.md come from here.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, assert_never

from trainyard.core.model.images.image import AMI
from trainyard.core.model.instance_types import MarketChoice
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
from trainyard.protocol import keys
from trainyard.protocol.cluster import Role, Strategy
from trainyard.protocol.tags import PREFIX
from trainyard.values.fields import (
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
from trainyard.values.lazy import dataclass

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


class Chief(StrEnum):
    """What the chief of `parameter_server` is: a coordinator beside the workers (ParameterServerStrategy), or worker 0
    of a cluster without a chief (compat.v1 programs, which find their chief by task index)."""

    COORDINATOR = "coordinator"
    WORKER = "worker"


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
        "A command that every host runs instead, in the folder of the unpacked `program.source`, as in `[torchrun, "
        "train.py]`: a command of `program.requirements` or of the image, or a file of the source (`./run.sh`). It "
        "runs without a shell: put shell lines into `program.shell` ([programs.md](programs.md#any-command)).",
        usual="`python -m MODULE`",
    )
    shell: str | None = key(
        None,
        ShellText(),
        "Lines that every host runs instead with `bash -eo pipefail`, in the folder of the unpacked "
        "`program.source`. The program ends with the first command that fails, also inside a pipe. `program.args` "
        'are `"$@"` ([programs.md](programs.md#lines-for-a-shell)).',
        usual="`python -m MODULE`",
    )
    args: Mapping[str, Scalar] | list[Scalar] = key(
        {},
        Arguments(
            name=r"[A-Za-z][A-Za-z0-9_-]{0,63}",
            named="a name of up to 64 letters, digits, hyphens and underscores that begins with a letter",
            most=MOST_ARGS,
        ),
        "Arguments of the module or command. A mapping gives `--name value` for each entry (`true`: only `--name`; "
        "`false`: no flag; a text that begins with `-`: `--name=value`). A list gives its values unchanged.",
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
        "Environment variables of the program whose values are secrets. Each value names a parameter "
        "`/YARD/secrets/NAME` of Parameter Store, a SecureString, which the hosts read when the program starts "
        "([below](#secrets)).",
    )
    requirements: str | None = key(
        None,
        Text(
            r"(?![./-])(?!.*(/\.|//))[A-Za-z0-9_./-]{1,200}",
            "a relative path inside program.source, as in requirements.txt",
        ),
        "A list of Python packages to install on every host before the program starts.",
    )
    progress: str | None = key(
        None,
        ProgressPattern(),
        "For a program that reports nothing itself: what is looked for in every line that the chief prints, as "
        f"`{EXAMPLE}` ([programs.md](programs.md#progress)).",
        usual="none: the scalars of TensorBoard, if the program writes any",
    )
    expect: tuple[Result, ...] = key(
        (),
        choices(Result),
        "Results that the program must leave; if one is missing, an exit with 0 is a failure.",
    )
    strict: bool = key(
        False,
        Flag(),
        "`true`: a program that exits with 0 has still failed if its last lines are an uncaught exception, or if its "
        "processes still run. `false`: such a run has succeeded, and every view shows `succeeded, but ...` "
        "([programs.md](programs.md#how-a-program-ends)).",
    )

    @property
    def called(self) -> str:
        """Return what runs, in a word or a line."""
        words = self.shell if self.shell is not None else " ".join(str(word) for word in self.command)
        first, *more = (self.module or words).strip().splitlines() or [""]
        return f"{first} ..." if more else first


@dataclass(frozen=True, kw_only=True)
class Data:
    """One data entry: everything under `source`, or the files of it that are a worker's share."""

    source: str = field(
        metadata=required(
            Uri(folder="data", ends=("/",)),
            "A folder of the bucket. All files below it are on every host's disk before the program starts, at the "
            "path in `TRAINYARD_DATA_NAME`. Or a folder next to the job file, such as `./data/`, which `trainyard "
            "submit` sends. Or a folder of another bucket that the yard reads, `s3://NAME/.../` "
            "([below](#other-buckets)).",
        )
    )
    sharding: Sharding = key(
        Sharding.NONE,
        Choice(Sharding),
        "`none`: every host has all files. `file`: each worker has its own share of the files; only with "
        "`multi_worker` and `parameter_server`, and with at least as many files as workers.",
    )


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The hosts that train together."""

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
        "With `parameter_server`: from 1 to the number of workers. With every other strategy: 0.",
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
        "With `multi_worker` and `parameter_server`: one additional host evaluates each new checkpoint "
        "([below](#an-evaluator)). It is not a worker and has no rank.",
    )

    @property
    def least_workers(self) -> int:
        """Return the number of workers without which the run does not train."""
        return self.workers["min"] if isinstance(self.workers, Mapping) else self.workers

    @property
    def most_workers(self) -> int:
        return self.workers["max"] if isinstance(self.workers, Mapping) else self.workers

    @property
    def is_elastic(self) -> bool:
        """Return True if attempts may differ in their number of workers."""
        return self.least_workers < self.most_workers

    @property
    def chief_trains(self) -> bool:
        """Return True if the chief is one of the workers."""
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
        "Types with GPUs or types without, not both. At equal prices, the order of the list decides. A type that the "
        "image does not support (P2, P3, and arm64 types like g5g with an x86_64 image) is skipped, and the plan "
        "states why.",
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
        "Types for the roles in `cpu_roles`; with `parameter_server`, and with `multi_worker` if it has an "
        "evaluator. `[]`: every role uses `instance_types`.",
        usual=f"with `parameter_server` on GPUs `[{', '.join(CPU_TYPES_BY_DEFAULT)}]`",
    )
    cpu_roles: tuple[Role, ...] = key(
        (),
        choices((Role.CHIEF, Role.PS, Role.EVALUATOR)),
        "The roles that run on `cpu_instance_types`. With `multi_worker`, whose chief trains, only `evaluator` is "
        "allowed.",
        usual="with `cpu_instance_types` `[chief, ps]`; with `cluster.chief: worker`, where the chief trains, `[ps]`; "
        "with `multi_worker` `[evaluator]`",
    )
    market: MarketChoice = key(
        MarketChoice.SPOT_THEN_ON_DEMAND,
        Choice(MarketChoice),
        "`spot_then_on_demand`: every spot pool before any on-demand pool.",
    )
    order: PoolOrder = key(
        PoolOrder.PRICE,
        Choice(PoolOrder),
        "`price`: ask the capacity pools of a market one after another, the cheapest first. `speed`: ask all of them "
        "in one request (several requests if hosts differ in their number of GPUs or in how fast their disks load). "
        "EC2 then takes the spot pool with the most capacity, or the cheapest on-demand pool with capacity.",
    )
    max_dollars_per_hour: float | None = key(
        None,
        Number(most=10_000, unit="dollars for the whole gang"),
        "Capacity pools above this price are skipped.",
        usual="no cap",
    )
    image: str | Mapping[str, str] | None = key(
        None,
        ImageName(
            IMAGE,
            "the id of an image (ami- and 8 to 17 hex digits), of a run, or the name of a family of images",
        ),
        "The image of all hosts in all attempts: the ID of an image, the ID of a run (the newest image of this run), "
        "or the name of a family (its newest image: the name of a recipe for baked images, the name of the job for "
        '`after.image`). Or `{tensorflow: "2.18"}`, the newest baked image with this version. Only images of the '
        "yard are allowed.",
        usual="the yard's current image",
    )
    zones: tuple[str, ...] = key(
        (),
        ZONES,
        "The Availability Zones to launch in, by name, as in `[us-east-1a]`. A zone without a subnet of the yard is "
        "refused.",
        usual="all of the yard's",
    )
    disk_gib: int | None = key(
        None,
        DISK_GIB,
        "The size of each host's root disk in GiB, at least the size of the image. Its price by size is part of the "
        "plan, the caps and the bill.",
        usual="as large as the image's",
    )


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """How often a program that uses the runtime saves, and what is kept."""

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
    """What to keep of the files that a program writes into its working folder."""

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


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a run."""

    hours: float = key(
        6.0,
        Number(most=720, unit="hours"),
        "The longest duration of the run, counted from its admission, including the time in which it waits for "
        "capacity. At its hours or its dollars a run saves, stops, and prints how to continue.",
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
class After:
    """What to do with the hosts at the end of a run."""

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


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The warm hosts that a successful run keeps for the next run."""

    keep: int = key(
        0,
        Count(least=0, most=MOST_KEPT),
        "The number of hosts that stay after a successful run, wiped, for the next run of the yard that needs hosts "
        "of this type, image and disk ([recipe](recipes/pool.md)). Such a run starts without a boot, and does not "
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
class Origin:
    """The commit that the program is from; `trainyard submit` fills it in."""

    commit: str | None = key(
        None,
        Text(r"[0-9a-f]{40}([0-9a-f]{24})?", "the whole id of a commit"),
        "The commit of the program. `trainyard submit` writes this section if `program.source` is a folder in a git "
        "work tree, or a repository.",
    )
    repository: str | None = key(
        None,
        Text(ADDRESS, "an address without spaces"),
        "The repository, without a user's name and password.",
    )
    ref: str | None = key(None, Text(ADDRESS, "a name without spaces"), "The branch or tag.")
    dirty: bool = key(False, Flag(), "`true` if the folder had uncommitted changes.")
    diff: str | None = key(
        None,
        Text(keys.PROGRAMS + r"[!-~]{1,200}", f"a key below {keys.PROGRAMS}"),
        "The key of these changes in the bucket, as far as git tracks their files: up to 1 MiB of a diff.",
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
    cluster: Cluster = key(Cluster(), Record(Cluster), "The hosts that train together.")
    hardware: Hardware = key(Hardware(), Record(Hardware), "The type of the hosts.")
    checkpoints: Checkpoints = key(
        Checkpoints(), Record(Checkpoints), "How often to save, and how many checkpoints to keep."
    )
    outputs: Outputs = key(
        Outputs(), Record(Outputs), "What to keep of the files in the program's working folder."
    )
    limits: Limits = key(Limits(), Record(Limits), "The limits of the run.")
    after: After = key(After(), Record(After), "What to do with the hosts at the end of the run.")
    pool: Pool = key(Pool(), Record(Pool), "The warm hosts to keep for the next run.")
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
    policy: Mapping[str, Any] = key(
        {},
        Part(Policy),
        "When patrol considers a host of this job idle, and what it does then. Applies to hosts that outlive the run "
        "(`after.hosts: stop`).",
    )
    origin: Origin = key(Origin(), Record(Origin), "The commit of the program.")

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
