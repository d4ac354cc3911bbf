"""Snapshots: read a request, and decide whether the host can be imaged that way."""

from collections.abc import Collection, Iterator

from lambdas.core.run.conclusion import summary
from lambdas.core.run.conclusion.summary import EndedRun
from trainyard.command_line import command_line
from trainyard.core.model import dev
from trainyard.core.model.images.image import Image
from trainyard.core.model.images.imaging import parent_tags
from trainyard.core.model.job_fields import NAME, RUN_ID
from trainyard.protocol.cluster import Assignment, Role
from trainyard.protocol.imaging import Imaging, Quiesce, Then
from trainyard.protocol.plan import Market
from trainyard.protocol.summary import SnapshotSummary
from trainyard.protocol.tags import Tag
from trainyard.values.fields import Choice, Count, Text, key
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Record
from trainyard.values.validation import Fault, InputFaults

WHAT, SO = "The snapshot that was asked for", "; no image was made and no host was touched"
INSTANCE = r"i-[0-9a-f]{8,17}"
IMAGED = ("running", "stopped")
"""EC2 makes images of instances in these states."""


@dataclass(frozen=True, kw_only=True)
class SnapshotRequest:
    """The input of the workflow: a snapshot of an instance, or of a host of the run's last attempt."""

    instance: str | None = key(
        None, Text(INSTANCE, "an instance's id (i- and 8 to 17 hex digits)"), "The host."
    )
    run: str | None = key(None, Text(RUN_ID, "a run's id"), "The run of the host.")
    role: Role = key(Role.CHIEF, Choice(Role), "The role of the host in the run.")
    index: int = key(0, Count(least=0, most=999), "The number of the host in that role.")
    name: str | None = key(
        None,
        Text(NAME, "a name of 1 to 40 lower-case letters, digits and hyphens that begins with a letter"),
        "The family of the image.",
        usual="the job's name",
    )
    quiesce: Quiesce = key(Quiesce.PAUSE, Choice(Quiesce), "The way to pause the host.")
    then: Then = key(Then.KEEP, Choice(Then), "The state of the host once its image is available.")


@dataclass(frozen=True, kw_only=True)
class SnapshotHost:
    """The host as EC2, Systems Manager and the ledger show it."""

    instance: str
    type: str
    mine: bool
    """True for a host of this yard."""
    state: str
    market: Market
    online: bool
    """True if Systems Manager lists the host."""
    image: str
    """The id of the image that the host started from."""
    parent: Image | None = None
    """The parent image; None if it is gone."""
    run: str | None = None
    """The run that the host was launched for."""
    kind: str | None = None
    """The kind of that run."""
    busy: bool = False
    """True until that run has ended."""
    warm: bool = False
    """True while the host waits in the warm pool."""
    family: str | None = None
    """The name of the run's job."""
    step: int | None = None
    """The step of the run's last checkpoint."""
    dev: str | None = None
    """The name of the dev host."""
    owner: str | None = None
    """The owner of the dev host."""
    wanted: bool = False
    """True if the owner or patrol requested this snapshot."""


def read_input(execution_input: object) -> SnapshotRequest | InputFaults:
    """Return the request in the execution's input, or all its faults."""
    request, section = Record(SnapshotRequest).read_document(execution_input)
    section.require_one(("instance", "run"), '{"instance": "i-..."} or {"run": "..."}')
    for each in ("role", "index"):
        if section.has(each) and section.has("instance") and not section.has("run"):
            section.fault(each, "selects a host of a run, and has no meaning beside instance")
    return refuse(*section.faults) if section.faults else request


def find_assigned(request: SnapshotRequest, assignments: Collection[Assignment]) -> str | InputFaults:
    """Return the instance with the requested role and index."""
    for assignment in assignments:
        if (assignment.role, assignment.index) == (request.role, request.index):
            return assignment.instance
    there = (
        ", ".join(f"{assignment.role} {assignment.index}" for assignment in assignments)
        or "none, because it has launched no host"
    )
    problem = f"the run {request.run} has no {request.role} {request.index}; it has {there}"
    return refuse(Fault("role", problem))


def refuse(*faults: Fault) -> InputFaults:
    return InputFaults(WHAT, faults, so=SO)


def refuse_unknown(request: SnapshotRequest, instance: str) -> InputFaults:
    """Return the fault of an instance that EC2 does not list, or no longer."""
    problem = (
        f"EC2 has no instance {instance}: it never existed in this region, or it ended more than an hour ago; "
        "only a running or stopped host can be imaged"
    )
    return refuse(Fault("instance" if request.instance else "run", problem))


def admit(request: SnapshotRequest, host: SnapshotHost, *, baked: Collection[str]) -> Imaging | InputFaults:
    """Return the snapshot, or every fault of the request. `baked` are the names of the families of baked images."""
    if not host.mine:
        return refuse(
            Fault("instance", f"{host.instance} is not a host of this yard: it lacks the tag {Tag.YARD}")
        )
    if host.dev and not host.wanted:
        problem = (
            f"{host.instance} is {host.owner}'s dev host {host.dev}, which only its owner can image: "
            f"{command_line('dev', 'down', host.dev, '--keep', 'image')}"
        )
        return refuse(Fault("instance", problem))
    faults = [*_state_faults(host, request), *_run_faults(host, request)]
    family = request.name or _default_family(host)
    if family in baked:
        problem = (
            f"{family} is the name of a recipe, whose images a bake makes; choose another name, so that the newest "
            f"image of {family} stays a baked one"
        )
        faults.append(Fault("name", problem))
    if faults:
        return refuse(*faults)
    return Imaging(
        instance=host.instance,
        type=host.type,
        family=family,
        parent=host.image,
        quiesce=request.quiesce,
        then=request.then,
        was_running=host.state == "running",
        host_run=host.run,
        step=host.step,
        dev=host.dev,
        owner=host.owner if host.dev else None,
        versions=parent_tags(host.parent),
    )


def summarise(ended: EndedRun, *, image: str | None) -> SnapshotSummary:
    """Return the summary.json of a snapshot, or of a refused one with the reason. `image` exists even if the host
    could not be ended as requested."""
    how, imaging = ended.conclusion, ended.row.imaging if ended.row else None
    return {
        **summary.head(ended),
        "kind": "imaged" if how.error is None else how.outcome.value,
        "image": image,
        "family": imaging.family if imaging else None,
        "instance": imaging.instance if imaging else None,
        "host_run": imaging.host_run if imaging else None,
        "parent": imaging.parent if imaging else None,
        "step": imaging.step if imaging else None,
        "quiesce": imaging.quiesce if imaging else None,
        "then": imaging.then if imaging else None,
        "where": {"folder": ended.folder},
    }


def _default_family(host: SnapshotHost) -> str:
    """Return the job's name, or for a host without a program the family of its parent snapshot, else the instance."""
    if host.dev:
        return dev.family(host.dev)
    if host.kind == "train" and host.family:
        return host.family
    parent = host.parent
    if parent and parent.tags.get(Tag.KIND) == "snapshot" and parent.family:
        return parent.family
    return host.instance


def _state_faults(host: SnapshotHost, request: SnapshotRequest) -> Iterator[Fault]:
    """Yield what the state of the instance forbids."""
    if host.state not in IMAGED:
        wait = {"pending": "; wait until it runs", "stopping": "; wait until it is stopped"}.get(
            host.state, ""
        )
        problem = f"{host.instance} is {host.state}; only a running or stopped host can be imaged{wait}"
        yield Fault("instance", problem)
        return
    for path, word, instead in (
        ("quiesce", request.quiesce, "pause or reboot"),
        ("then", request.then, "terminate, and launch from the image later"),
    ):
        if word == "stop" and not host.market.can_stop:
            problem = (
                f"found stop, but {host.instance} is a spot host of a fleet, which EC2 can only terminate; "
                f"use {instead}"
            )
            yield Fault(path, problem)
    if host.state == "running" and request.quiesce is Quiesce.PAUSE and not host.online:
        yield Fault(
            "quiesce",
            f"found pause, but Systems Manager does not list {host.instance}, so its program cannot be paused: it "
            "still boots, hangs or is cut off; try again in a minute, or use reboot",
        )


def _run_faults(host: SnapshotHost, request: SnapshotRequest) -> Iterator[Fault]:
    """Yield what the host's run forbids."""
    if host.warm:
        problem = (
            f"{host.instance} waits in the warm pool for another run, and {host.run} was wiped from it; request the "
            "image in the job (after.image), or choose a host that trains"
        )
        yield Fault("instance", problem)
        return
    if not host.busy:
        return
    if host.kind == "bake":
        problem = f"{host.instance} is the builder of {host.run}, which makes the image itself"
        yield Fault("instance", problem)
        return
    what = "is being launched" if host.kind == "dev-host" else "trains on it"
    for path, word, harmless in (
        ("quiesce", request.quiesce, Quiesce.PAUSE),
        ("then", request.then, Then.KEEP),
    ):
        if word != harmless:
            yield Fault(
                path,
                f"found {word}, but {host.run} {what} and would lose the host; use {harmless}, or wait for the run's "
                "end (a job's after.image makes an image then)",
            )
