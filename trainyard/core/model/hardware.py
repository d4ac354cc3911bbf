"""The sections of a job file that select the hosts: cluster and hardware."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import assert_never

from trainyard.core.model.images.image import AMI
from trainyard.core.model.instance_types import MarketChoice
from trainyard.core.model.job_fields import (
    ANY_TYPES,
    CPU_TYPES,
    DISK_GIB,
    RUN_ID,
    ZONES,
    CountOrRange,
    ImageName,
)
from trainyard.protocol.cluster import IN_STEP, SEVERAL_HOSTS, Role, Strategy
from trainyard.values.fields import Choice, Count, Flag, Number, Text, choices, key
from trainyard.values.lazy import dataclass

MOST_HOSTS = 50
IMAGE = rf"{AMI}|(?!ami-){RUN_ID}"
"""The id of an image, or the name of a run or a family."""
BUILDER_TYPES = ("g4dn.xlarge", "g5.xlarge", "g6.xlarge", "m7i.xlarge")
"""The instance types on which an image is made by default."""
CPU_TYPES_BY_DEFAULT = ("m7i.xlarge", "m6i.xlarge", "m7a.xlarge")


def named(strategies: Iterable[Strategy]) -> str:
    """Return strategies as the reference writes them."""
    return " and ".join(f"`{strategy}`" for strategy in strategies)


class Chief(StrEnum):
    """The chief of `parameter_server`: a coordinator beside the workers (ParameterServerStrategy), or worker 0 of a
    cluster without a chief (compat.v1 programs, which find their chief by task index)."""

    COORDINATOR = "coordinator"
    WORKER = "worker"


class Preference(StrEnum):
    """The order of launch requests to the capacity pools of a market."""

    PRICE = "price"
    SPEED = "speed"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The hosts that train together."""

    strategy: Strategy = key(
        Strategy.SINGLE,
        Choice(Strategy),
        " ".join(f"`{strategy}`: {strategy.in_words}." for strategy in Strategy),
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
        "The number of hosts that train; 1 with `single` and `mirrored`. With `parameter_server` the chief is an "
        f"additional host, unless `cluster.chief` is `worker`. A run has at most {MOST_HOSTS} hosts. "
        f"`{{min: 2, max: 8}}`, only with {named(IN_STEP)}: a number that depends on the capacity and may change "
        "during the training ([below](#a-variable-number-of-workers)).",
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
        f"With {named(SEVERAL_HOSTS)}: one additional host evaluates each new checkpoint "
        "([below](#an-evaluator)). It is not a worker and has no rank.",
    )

    @property
    def least_workers(self) -> int:
        """Return the smallest number of workers with which the run trains."""
        return self.workers["min"] if isinstance(self.workers, Mapping) else self.workers

    @property
    def most_workers(self) -> int:
        return self.workers["max"] if isinstance(self.workers, Mapping) else self.workers

    @property
    def is_elastic(self) -> bool:
        """Return True if attempts may have different numbers of workers."""
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
    """The hardware of the hosts."""

    instance_types: tuple[str, ...] = key(
        ("g6.xlarge", "g5.xlarge", "g4dn.xlarge"),
        ANY_TYPES,
        "Types with GPUs or types without, not both. At equal prices, the order of the list decides. A type that the "
        "image does not support (P2, P3, and arm64 types like g5g with an x86_64 image) is skipped, and the plan "
        "states why.",
    )
    gpus: int | None = key(
        None,
        Count(least=1, most=64),
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
    prefer: Preference = key(
        Preference.PRICE,
        Choice(Preference),
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
