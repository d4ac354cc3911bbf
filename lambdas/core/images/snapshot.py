"""Snapshots: what one is asked for, and whether the host can be imaged that way."""

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
"""States of an instance that EC2 makes images of."""


@dataclass(frozen=True, kw_only=True)
class SnapshotRequest:
    """What is asked for: a snapshot of an instance, or of the host of that role in the run's last attempt."""

    instance: str | None = key(
        None, Text(INSTANCE, "an instance's id (i- and 8 to 17 hex digits)"), "The host."
    )
    run: str | None = key(None, Text(RUN_ID, "a run's id"), "The run whose host is meant.")
    role: Role = key(Role.CHIEF, Choice(Role), "Which host of the run.")
    index: int = key(0, Count(least=0, most=999), "Which host of that role.")
    name: str | None = key(
        None,
        Text(NAME, "a name of 1 to 40 lower-case letters, digits and hyphens that begins with a letter"),
        "The family of the image.",
        usual="the job's name",
    )
    quiesce: Quiesce = key(Quiesce.PAUSE, Choice(Quiesce), "How the host is brought to rest.")
    then: Then = key(Then.KEEP, Choice(Then), "What becomes of the host once its image is available.")


@dataclass(frozen=True, kw_only=True)
class SnapshotHost:
    """The host as EC2, Systems Manager and the ledger know it. `run` is the one it was launched for and `kind` that
    run's; `busy` says that this run is not over, `warm` that the host waits in the pool for another, `family` is
    its job's name; `parent` is the image it started from (None where that is gone) and `image` that one's id;
    `step` is that of the run's last checkpoint; `dev` and `owner` are those of a dev host, and `wanted` says that its
    owner or patrol has asked for this snapshot."""

    instance: str
    type: str
    mine: bool
    state: str
    market: Market
    online: bool
    image: str
    parent: Image | None = None
    run: str | None = None
    kind: str | None = None
    busy: bool = False
    warm: bool = False
    family: str | None = None
    step: int | None = None
    dev: str | None = None
    owner: str | None = None
    wanted: bool = False


def read_input(execution_input: object) -> SnapshotRequest | InputFaults:
    """What the execution's input asks for, or every fault of it."""
    request, section = Record(SnapshotRequest).read_document(execution_input)
    section.require_one(("instance", "run"), '{"instance": "i-..."} or {"run": "..."}')
    for each in ("role", "index"):
        if section.has(each) and section.has("instance") and not section.has("run"):
            section.fault(each, "says which host of a run is meant; with instance it means nothing")
    return refused(*section.faults) if section.faults else request


def assigned(request: SnapshotRequest, assignments: Collection[Assignment]) -> str | InputFaults:
    """The instance with the role and index that were asked for."""
    for assignment in assignments:
        if (assignment.role, assignment.index) == (request.role, request.index):
            return assignment.instance
    there = (
        ", ".join(f"{assignment.role} {assignment.index}" for assignment in assignments)
        or "none, since it has launched no host"
    )
    problem = f"the run {request.run} has no {request.role} {request.index}; it has {there}"
    return refused(Fault("role", problem))


def refused(*faults: Fault) -> InputFaults:
    return InputFaults(WHAT, faults, so=SO)


def unknown(request: SnapshotRequest, instance: str) -> InputFaults:
    """EC2 does not know the instance, or has forgotten it since its end."""
    problem = (
        f"EC2 knows no instance {instance}: it never existed in this region, or it ended more than an hour ago; "
        "only a host that is running or stopped can be imaged"
    )
    return refused(Fault("instance" if request.instance else "run", problem))


def admit(request: SnapshotRequest, host: SnapshotHost, *, baked: Collection[str]) -> Imaging | InputFaults:
    """The snapshot, or every reason against it. `baked` are the names of the families of baked images."""
    if not host.mine:
        return refused(
            Fault("instance", f"{host.instance} is no host of this yard: it lacks the yard's tag {Tag.YARD}")
        )
    if host.dev and not host.wanted:
        problem = (
            f"{host.instance} is {host.owner}'s dev host {host.dev}, which becomes an image when its owner says so: "
            f"{command_line('dev', 'down', host.dev, '--keep', 'image')}"
        )
        return refused(Fault("instance", problem))
    faults = [*_state_faults(host, request), *_run_faults(host, request)]
    family = request.name or _default_family(host)
    if family in baked:
        problem = (
            f"{family} is the name of a recipe, whose images the bake makes; give another name, so that the newest "
            f"image of {family} stays a baked one"
        )
        faults.append(Fault("name", problem))
    if faults:
        return refused(*faults)
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
    """summary.json of a snapshot; of one that was refused, or that Admit could not write down, that and why. `image` is
    the one that there is: also where the host could not be ended as asked."""
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
    """The job's name; of a host without a program the name of the snapshots that it came from; else the instance."""
    if host.dev:
        return dev.family(host.dev)
    if host.kind == "train" and host.family:
        return host.family
    parent = host.parent
    if parent and parent.tags.get(Tag.KIND) == "snapshot" and parent.family:
        return parent.family
    return host.instance


def _state_faults(host: SnapshotHost, request: SnapshotRequest) -> Iterator[Fault]:
    """What the instance itself does not allow."""
    if host.state not in IMAGED:
        wait = {"pending": "; wait until it runs", "stopping": "; wait until it is stopped"}.get(
            host.state, ""
        )
        problem = f"{host.instance} is {host.state}; a host that runs or is stopped can be imaged{wait}"
        yield Fault("instance", problem)
        return
    for path, word, instead in (
        ("quiesce", request.quiesce, "pause or reboot"),
        ("then", request.then, "terminate, and launch from the image later"),
    ):
        if word == "stop" and not host.market.can_stop:
            problem = (
                f"found stop, but {host.instance} is a spot host of a fleet, which EC2 can terminate and never stop; "
                f"take {instead}"
            )
            yield Fault(path, problem)
    if host.state == "running" and request.quiesce is Quiesce.PAUSE and not host.online:
        yield Fault(
            "quiesce",
            f"found pause, but Systems Manager does not know {host.instance}, so that nothing on it can be paused: it "
            "still boots, hangs or is cut off; try again in a minute, or take reboot",
        )


def _run_faults(host: SnapshotHost, request: SnapshotRequest) -> Iterator[Fault]:
    """What the run that the host works for does not allow."""
    if host.warm:
        problem = (
            f"{host.instance} waits in the pool for another run, and nothing of {host.run} is left on it; ask for the "
            "image in the job (after.image), or take a host that trains"
        )
        yield Fault("instance", problem)
        return
    if not host.busy:
        return
    if host.kind == "bake":
        problem = f"{host.instance} is the builder of {host.run}, which makes an image of it by itself"
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
                f"found {word}, but {host.run} {what} and would lose the host; take {harmless}, or wait for the run's "
                "end (a job's after.image makes an image then)",
            )
