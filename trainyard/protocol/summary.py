"""The file summary.json of a run, with its outcome. Conclude writes it once, when the run ends.

These are the types of JSON objects. Times are ISO 8601 in UTC, as in every file of the bucket.
"""

from collections.abc import Mapping
from typing import Any, TypedDict, TypeVar

from trainyard.values import serialization

Summary = TypeVar("Summary")


class UnreadableSummaryError(ValueError):
    """A summary lacks a key, or has a value of a wrong type."""


def read(kind: type[Summary], document: Mapping[str, Any]) -> Summary:
    """Return the summary. Raise UnreadableSummaryError with each fault."""
    try:
        return serialization.read(kind, document)
    except ValueError as error:
        raise UnreadableSummaryError(
            f"The summary of {document.get('run', 'a run')} cannot be read as {kind.__name__}: {error}"
        ) from error


class AttemptSummary(TypedDict):
    """An attempt of a run."""

    attempt: int
    pool: str | None
    """The capacity pool of its hosts."""
    hosts: list[str]
    launched: str
    ended: str | None
    ending: str | None
    """An Ending; null if the run ended in the attempt."""
    reason: str | None
    seconds: float
    """Between `launched` and `ended`."""
    gang_ready: str | None
    started: str | None
    """When the program started on the last host."""
    from_step: int | None
    """The step of the checkpoint that it began with, or 0; null for a bake of an older version."""
    to_step: int | None
    """The last step; null for a bake, and for a program that reports no steps."""


class GangSize(TypedDict):
    """A change of the number of hosts."""

    attempt: int
    at: str
    hosts: int
    reason: str


class Steps(TypedDict):
    """The steps of a run."""

    done: int | None
    """The step in metrics.json of a program that finished. Otherwise the last step that a host reported."""
    planned: int | None


class Resume(TypedDict):
    """The proof of resume."""

    attempts: int
    resumed_at: list[int | None]
    """The step of each restart; null for one with outputs but without a checkpoint: only the program has its step."""
    steps_lost: int | None
    """Steps that were trained twice, over all restarts; null if a restart has no step, or the program reports none."""
    verified: bool | None
    """True if every restart found its checkpoint whole, false if one did not, null if there was nothing to find."""
    restores: list[dict[str, Any]]
    """`resumed` of each restart, from its signals."""


class LeftOut(TypedDict):
    """A file that was not kept."""

    path: str
    size: int
    """Bytes."""
    reason: str


class Outputs(TypedDict):
    """The files of the program's working folders."""

    files: int
    bytes: int
    left_out: list[LeftOut]
    """The largest first, at most 100."""
    left_out_more: int
    """The number of other files that were not kept."""


class MarketCost(TypedDict):
    """The cost of the hosts of one market."""

    dollars: float
    hours: float


class Cost(TypedDict):
    """The cost of the hosts of a run."""

    dollars: float
    hours: float
    """Hours of all hosts together."""
    by_market: dict[str, MarketCost]
    on_demand_dollars: float | None
    """The cost of these hours on demand; null if a price is unknown."""
    saved_dollars: float | None
    saved_percent: float | None
    prices: str | None
    """The source of the prices, for example `prices of eu-central-1, 2026-11-23`; null for a run without a plan."""
    counts: str
    """A sentence about the items in the dollars."""


class HostFault(TypedDict, total=False):
    """The state of a host's hardware."""

    faulty: str | None
    """The fault for which the host was given up; null for a sound host."""


class HostSummary(HostFault):
    """A host and its bill."""

    instance: str
    type: str
    zone: str
    market: str
    price: float
    """Dollars an hour."""
    on_demand_price: float | None
    disk_gib: int
    gib_month: float
    """Dollars for each GiB of the disk and month."""
    volume_charge: float
    """Dollars once, for the rate at which the disk is initialized."""
    launched: str
    ended: str | None
    seconds: float
    dollars: float


class WarmPool(TypedDict):
    """The hosts of the warm pool that the run retained or claimed."""

    retained: list[str]
    """Hosts that waited for another run when this one ended."""
    minutes: float | None
    most_dollars: float
    """The most that their wait can cost. It is not part of `cost`; the run's row has the actual cost."""
    claimed: list[str]
    """Hosts of an earlier run, claimed from the warm pool."""


class Head(TypedDict):
    """The keys of every summary."""

    run: str
    outcome: str
    """An Outcome."""
    but: list[str]
    """Sentences that cast doubt on a run that succeeded. Its `reason` then begins with `the program finished, but`."""
    reason: str
    error: str | None
    """A name of trainyard/core/model/errors.py; null if the run succeeded."""
    created: str
    ended: str
    seconds: float
    execution_arn: str | None


class Findings(TypedDict, total=False):
    """Observations about the hosts of a run."""

    findings: list[str]
    """Sentences without a period: faults of hardware, slow hosts, and the limit of the program."""


class RunSummary(Head, Findings):
    """The summary of a training."""

    job: str | None
    """The job's name."""
    job_key: str | None
    submitter: str | None
    requester: str | None
    labels: dict[str, str]
    origin: dict[str, Any] | None
    """The commit of the program: `commit`, `repository`, `ref`, `dirty` and `diff`; null if it is unknown."""
    warnings: list[str]
    """Failures that were expected at admission, and the reason if a requested image is missing."""
    restarts: int
    attempts: list[AttemptSummary]
    sizes: list[GangSize]
    """One entry for each change of the number of hosts."""
    steps: Steps
    metrics: dict[str, Any]
    """metrics.json of a program that finished, without `history`, `samples` and `scalars`."""
    outputs: Outputs
    resume: Resume
    cost: Cost
    pool: WarmPool
    hosts: list[HostSummary]
    image: str | None
    where: dict[str, str]
    """Existing S3 URIs: `folder`, `model`, `outputs`, `metrics`, `checkpoints`, `tensorboard`, `notebook`,
    `plan`, `attempts`, and `last_log`, the folder of the chief's log in the last attempt."""


class BakeSummary(Head):
    """The summary of a bake."""

    restarts: int
    cost: Cost
    hosts: list[HostSummary]
    attempts: list[AttemptSummary]
    kind: str
    """`baked`, `unchanged`, or the outcome of a bake that made no image."""
    recipe: str | None
    """The recipe's name."""
    hash: str | None
    base: str | None
    """The image that the builder started from."""
    image: str | None
    before: str | None
    """The image that the family had before."""
    tests: list[dict[str, Any]]
    versions: dict[str, Any]
    retirement: str | None
    """Why older images were not retired; null if they were."""
    where: dict[str, str]
    """Existing S3 URIs: `folder`, `recipe`, `log`, `tests`, `sbom` and `plan`."""


class SnapshotSummary(Head):
    """The summary of a snapshot."""

    kind: str
    """`imaged`, or the outcome of a snapshot that made no image."""
    image: str | None
    family: str | None
    instance: str | None
    host_run: str | None
    """The run that launched the host."""
    parent: str | None
    """The image that the host started from."""
    step: int | None
    quiesce: str | None
    then: str | None
    where: dict[str, str]


class HostAccess(TypedDict, total=False):
    """The host of a launch that succeeded, and how to reach it."""

    instance: str
    address: str | None
    zone: str
    type: str
    market: str
    price: float
    """Dollars an hour."""
    prices: str | None
    until: str | None
    """When patrol ends the host, whatever it does."""
    held: str | None
    """The end of the hold."""
    connect: str
    """The command that opens a shell on the host."""


class LaunchSummary(Head, HostAccess):
    """The summary of the launch of a dev host."""

    kind: str
    """`launched`, or the outcome of a launch that failed."""
    image: str | None
    family: str | None
    dev: str | None
    """The name of the dev host."""
    attempts: list[AttemptSummary]
    where: dict[str, str]


class StudySummary(Head):
    """The summary of a study."""

    job: str | None
    """The job's name."""
    submitter: str | None
    metric: str | None
    trials: int
    """The number of trials that count."""
    dollars: float
    """The cost of all trials."""
    best: str | None
    """The run of the best trial; null if no trial is complete."""
    value: float | None
    """The metric of the best trial."""
    retrained: str | None
    """The run that trained the best values once more; null without `then.retrain`, or if it left no metric."""
