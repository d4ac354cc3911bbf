"""The settings of a yard. Nothing here imports the CDK: a deployment compares settings before it synthesizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainyard.core.model.yard.data_buckets import DataBucket
from trainyard.core.model.yard.policy import Policy
from trainyard.core.model.yard.settings import CALLED, NOT_REMEMBERED, READERS, as_word
from trainyard.protocol import keys

if TYPE_CHECKING:
    from constructs import Construct


@dataclass(frozen=True, kw_only=True)
class YardSettings:
    """The choices of `cdk.json`, each of which `-c name=value` overrides; or of whoever makes a Yard in an app of
    their own, where an id may also be that of something which the app makes."""

    prefix: str = "Trainyard"
    """Prefix of the stacks' names. Its lower case is the yard's name: the tag, the bus, the parameter."""
    private: bool = False
    """Hosts without public addresses, behind interface endpoints (about $0.01 an hour per endpoint and zone)."""
    zones: tuple[str, ...] = ()
    """The Availability Zones that hosts may be in; none named: every one that the account has in the region."""
    vpc: str = ""
    """The id of a VPC of your own, for hosts in `subnets` of it; nothing: the yard makes one, as above. Hosts must
    reach S3, Systems Manager, EventBridge, CloudWatch, Logs, STS and the package index by TLS from there."""
    subnets: tuple[str, ...] = ()
    """The ids of subnets of that VPC, each in a zone of its own or not."""
    s3_endpoint: bool = False
    """Whether the route tables of those subnets lead to S3 by a gateway endpoint, as in a VPC that the yard makes: then
    credentials of hosts are good for the bucket from that VPC alone."""
    permissions_boundary: str = ""
    """The ARN of the policy that bounds every role of the yard, or nothing."""
    kms_key: str = ""
    """The ARN of a KMS key of yours for all that the yard keeps (bucket, ledger, logs, notices, the hosts' volumes and
    images), or nothing: AWS's keys. What its policy must say is in docs/runbook.md."""
    log_days: int = 30
    """How long the logs of functions and workflows are kept."""
    disposable: bool = False
    """For try-outs: destroying the stacks also deletes the bucket (once empty) and the ledger."""
    notify: str = ""
    """Mail address for concluded runs and alarms, or nothing."""
    base_image_parameter: str = (
        "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
    )
    """Names the image that builders start from where the recipe names none."""
    bake_recipe: str = "gpu"
    """The recipe `examples/images/<bake_recipe>.yaml`, which a bake without a recipe, and one on a schedule, is by."""
    bake_on_deploy: bool = True
    """Whether a deployment uploads that recipe, which bakes it, where it or what a bake installs has changed."""
    bake_schedule: str = ""
    """When to bake it, as EventBridge writes it (`rate(7 days)`, `cron(...)`), or nothing."""
    look_seconds: int = 600
    """How long a workflow waits for an event before it looks by itself: what a lost one costs."""
    volume_initialization_rate: int = 300
    """MiB a second, the most at which EBS is asked to fetch a new root disk from its snapshot where that is worth its
    charge; 0: never."""
    keep_images: int = 3
    """How many images of every family stay, the newest, ..."""
    keep_days: int = 14
    """... and all that are younger than this."""
    policy: Policy = field(default_factory=Policy)
    """When patrol calls a host idle, and what it does then; what is not given is the default."""
    monthly_dollars: float = 1000.0
    """What hosts may cost in a month, with what is promised to runs and launches, before new ones are refused; 0: no
    budget."""
    most_dollars_per_run: float = 500.0
    """The most that a job may allow its run to cost (limits.dollars); 0: no limit."""
    most_runs: int = 20
    """How many training runs there are at once; 0: no limit."""
    data_buckets: tuple[DataBucket, ...] = ()
    """Other buckets, or folders of them, that jobs may name in `data` and `program.source`; runs may read there what
    their job names, and nobody may write."""
    most_hosts: int = 64
    """How many hosts training runs and launches may have at once, all together; 0: no limit."""
    most_hold_hours: float = 24.0
    """How long a host that a user launches may run or be held. Operators may exceed it; 0: no limit."""
    most_pool_hosts: int = 8
    """How many hosts of runs that have ended may wait for other runs at once (a job's `pool`); 0: none."""
    when_full: str = "wait"
    """What a run does then: `wait` for a place as long as its job says (limits.wait_minutes), or end (`refuse`)."""

    bucket: str = ""
    """The name of a bucket that an earlier yard of this name has left, which becomes the yard's, or nothing."""
    ledger: str = ""
    """The name of the table that belongs to it, or nothing."""
    remembered: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The settings of context that differ from the defaults, as `-c` has them. The yard keeps them, and a deployment
    that does not name them takes them from there."""

    def __post_init__(self) -> None:
        if bool(self.vpc) != bool(self.subnets):
            raise ValueError("settings vpc and subnets: say both, or neither")
        if self.s3_endpoint and not self.vpc:
            raise ValueError(
                "setting s3_endpoint is for a VPC of yours: the one that the yard makes has an endpoint"
            )
        if self.vpc and (self.private or self.zones):
            raise ValueError(
                "settings private and zones are for a VPC that the yard makes: choose subnets of yours instead"
            )

    @property
    def yard(self) -> str:
        return self.prefix.lower()

    @property
    def limits(self) -> str:
        """For whoever deploys."""
        run, month = (
            f"${dollars:g}" if dollars else "any sum"
            for dollars in (self.most_dollars_per_run, self.monthly_dollars)
        )
        runs, hosts = (number or "any number of" for number in (self.most_runs, self.most_hosts))
        full = "others wait" if self.when_full == "wait" else "others are refused"
        hold = f"{self.most_hold_hours:g} hours" if self.most_hold_hours else "any time"
        return (
            f"a run: {run}; at once: {runs} training runs with {hosts} hosts ({full}); a user's host: {hold}; "
            f"a month: {month}"
        )

    @property
    def image_parameter(self) -> str:
        return f"/{self.yard}/image"

    @property
    def yard_parameter(self) -> str:
        return f"/{self.yard}/yard"

    @property
    def settings_parameter(self) -> str:
        """Holds `remembered`."""
        return f"/{self.yard}/settings"

    @property
    def recipe_key(self) -> str:
        """Return the key of the yard's own recipe in the bucket."""
        return f"{keys.IMAGES}{self.bake_recipe}.yaml"

    @property
    def recipe_file(self) -> str:
        """Return the path of the yard's own recipe in this repository."""
        return f"examples/{self.recipe_key}"

    @property
    def previous_image_parameter(self) -> str:
        return f"/{self.yard}/image/previous"

    @classmethod
    def of(cls, scope: Construct) -> YardSettings:
        """The settings of the app that `scope` belongs to. Raises ValueError naming the context key at fault."""
        return cls.of_context({key: scope.node.try_get_context(key) for key in READERS})

    @classmethod
    def of_context(cls, context: Mapping[str, object]) -> YardSettings:
        """The settings of these values by their keys; None is none. Raises ValueError naming the key at fault."""
        given = {key: value for key, value in context.items() if value is not None}
        read = {CALLED.get(key, key): READERS[key](key, value) for key, value in given.items()}
        usual = cls()
        remembered = {
            key: as_word(value)
            for key, value in given.items()
            if key not in NOT_REMEMBERED
            and read[CALLED.get(key, key)] != getattr(usual, CALLED.get(key, key))
        }
        return cls(**read, remembered=remembered)
