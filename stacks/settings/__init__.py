"""The settings of a yard. Nothing here imports the CDK: a deployment compares settings before it synthesizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainyard.core.model.yard.data_buckets import DataBucket
from trainyard.core.model.yard.file_systems import ListedFileSystem
from trainyard.core.model.yard.policy import Policy
from trainyard.core.model.yard.registries import PullThrough, Registry
from trainyard.core.model.yard.settings import CALLED, NOT_REMEMBERED, READERS, as_word
from trainyard.protocol import keys

if TYPE_CHECKING:
    from constructs import Construct


@dataclass(frozen=True, kw_only=True)
class YardSettings:
    """The settings of `cdk.json`, each overridden by `-c name=value`, or given by an app that makes a Yard. In an
    app, an id may belong to a resource that the app creates."""

    prefix: str = "Trainyard"
    """Prefix of the stacks' names. In lower case it is the yard's name, used in the tag, the bus and the parameter."""
    private: bool = False
    """Hosts have no public addresses, and use interface endpoints (about $0.01 an hour for each endpoint and zone)."""
    zones: tuple[str, ...] = ()
    """The Availability Zones of hosts; default: every zone that the account has in the region."""
    vpc: str = ""
    """The id of an existing VPC with the `subnets` of hosts; default: the yard creates a VPC. From the VPC, hosts
    must reach S3, Systems Manager, EventBridge, CloudWatch, Logs, STS and the package index by TLS."""
    subnets: tuple[str, ...] = ()
    """The ids of subnets of that VPC, in one zone or several."""
    s3_endpoint: bool = False
    """True if the route tables of those subnets lead to S3 by a gateway endpoint, as in a VPC of the yard.
    Credentials of hosts then reach the bucket only from that VPC."""
    permissions_boundary: str = ""
    """The ARN of the permissions boundary for every role of the yard; default: none."""
    kms_key: str = ""
    """The ARN of your KMS key for everything that the yard stores (bucket, ledger, logs, notifications, volumes and
    images of hosts); default: AWS's keys. docs/runbook.md contains its policy."""
    log_days: int = 30
    """How many days the logs of functions and workflows are kept."""
    disposable: bool = False
    """For experiments: destroying the stacks also deletes the bucket (once empty) and the ledger."""
    notify: str = ""
    """Mail address for ended runs and alarms; default: none."""
    base_image_parameter: str = (
        "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
    )
    """The parameter of the image that builders start from, unless the recipe names one."""
    bake_recipe: str = "gpu"
    """The recipe `examples/images/<bake_recipe>.yaml` of a bake without a recipe and of scheduled bakes."""
    bake_on_deploy: bool = True
    """True if a deployment uploads that recipe, which starts a bake, when the recipe or the baked software has
    changed."""
    bake_schedule: str = ""
    """When to bake that recipe, in EventBridge's syntax (`rate(7 days)`, `cron(...)`); default: never."""
    look_seconds: int = 600
    """How many seconds a workflow waits for an event before it checks by itself: the delay that a lost event costs."""
    volume_initialization_rate: int = 300
    """The highest rate in MiB/s at which EBS may fetch a new root disk from its snapshot if that is worth its
    charge; 0: never."""
    keep_images: int = 3
    """How many images of each family stay, the newest ones."""
    keep_days: int = 14
    """Images younger than this stay, too."""
    policy: Policy = field(default_factory=Policy)
    """The limits below which a host counts as idle, and patrol's action then. Missing values are the defaults."""
    monthly_dollars: float = 1000.0
    """The budget for hosts in a month, including what runs and launches may still cost. Beyond it new ones are
    refused; 0: no budget."""
    most_dollars_per_run: float = 500.0
    """The highest limits.dollars of a job; 0: no limit."""
    most_runs: int = 20
    """How many training runs may run at once; 0: no limit."""
    data_buckets: tuple[DataBucket, ...] = ()
    """Other buckets, or folders of them, for `data` and `program.source` of jobs. Runs may read objects that their job
    names, and write nothing."""
    registries: tuple[Registry, ...] = ()
    """Registries whose container images jobs may use: ARNs of repositories of Amazon ECR (`*` matches any text), and
    hosts such as `docker.io`."""
    pull_through: tuple[PullThrough, ...] = ()
    """Registries whose images are pulled through Amazon ECR in the yard's account, each with the prefix of ECR's
    pull-through cache rule: `docker.io=docker-hub`. Images of these registries need no entry in `registries`."""
    file_systems: tuple[ListedFileSystem, ...] = ()
    """File systems of Amazon EFS and FSx for Lustre that runs may mount as data, each with its `id` (`fs-...`, or
    `fsx://fs-...` for FSx), `access` (`read` or `write`) and, for EFS, `access_point`. Or as words,
    `fs-...:write:fsap-...`."""
    internal_webhooks: tuple[str, ...] = ()
    """Networks of internal servers that webhooks may reach, such as `10.0.0.0/8`. Functions in an account reach no
    private network, so this is for a local cloud. Default: none."""
    otlp_endpoint: str = ""
    """The receiver of OpenTelemetry metrics (OTLP by HTTP) that gets the scalars of all runs and the use of their
    hosts, such as `https://otlp.example.com`; default: none."""
    otlp_headers: str = ""
    """The yard's secret with the headers of requests to it, such as `api-key=...`; default: none."""
    nccl_check_seconds: int = 0
    """How many seconds the check of a gang's GPUs, an all-reduce by NCCL before each start of a program, may take;
    0: no check."""
    most_hosts: int = 64
    """How many hosts training runs and launches may have at once in total; 0: no limit."""
    most_hold_hours: float = 24.0
    """How many hours a host that a user launches may run or be held. Operators may exceed it; 0: no limit."""
    most_pool_hosts: int = 8
    """How many hosts of ended runs may wait for other runs at once (a job's `pool`); 0: none."""
    model_url: bool = False
    """True if the function for predictions has a URL for HTTP requests that are signed with AWS credentials."""
    most_predictions_at_once: int = 50
    """How many requests for predictions run at once: the reserved concurrency of the function. The account keeps at
    least 100 for other functions; 0: no reservation."""
    when_full: str = "wait"
    """The action for a run without a slot: `wait` as long as its job allows (limits.wait_minutes), or `refuse`."""
    preempt: bool = False
    """True if a running run of a lower priority saves, leaves its hosts and waits in the queue again when a run of a
    higher priority waits for a slot."""

    bucket: str = ""
    """The name of a bucket that an earlier yard of this name left, which this yard uses; default: none."""
    ledger: str = ""
    """The name of the table that belongs to it; default: none."""
    remembered: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The context settings that differ from the defaults, as for `-c`. The yard stores them, and a later deployment
    without them uses the stored ones."""

    def __post_init__(self) -> None:
        if bool(self.vpc) != bool(self.subnets):
            raise ValueError("settings vpc and subnets: give both, or neither")
        if self.s3_endpoint and not self.vpc:
            raise ValueError("setting s3_endpoint is for an existing VPC: the yard's own VPC has an endpoint")
        if self.vpc and (self.private or self.zones):
            raise ValueError("settings private and zones are for the yard's own VPC: choose subnets instead")

    @property
    def yard(self) -> str:
        return self.prefix.lower()

    @property
    def limits(self) -> str:
        """Return the limits as text for the operator."""
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
        """Return the name of the parameter that stores `remembered`."""
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
        """Return the settings in the context of `scope`. Raise ValueError with the context key at fault."""
        return cls.from_context({key: scope.node.try_get_context(key) for key in READERS})

    @classmethod
    def from_context(cls, context: Mapping[str, object]) -> YardSettings:
        """Return the settings from these values by key; None means unset. Raise ValueError with the key at fault."""
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
