"""Snapshots: what one is asked for, and whether the host can be imaged that way."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from lambdas.core.model import wire
from lambdas.core.model.gang import Assignment
from lambdas.core.model.image import Image
from lambdas.core.model.imaging import Imaging, Quiesce, Then, parent_tags
from lambdas.core.model.instance_types import Market
from lambdas.core.model.job import NAME, RUN_ID, Fault, InputFaults, Role
from lambdas.core.model.lazy import dataclass
from lambdas.core.model.validation import Faults, Section
from lambdas.core.run.outcome import Conclusion
from lambdas.core.run.records import RunRow

WHAT, SO = "The snapshot that was asked for", "; no image was made and no host was touched"
KEYS = ("instance", "run", "role", "index", "name", "quiesce", "then")
INSTANCE = r"i-[0-9a-f]{8,17}"
IMAGED = ("running", "stopped")
"""States of an instance that EC2 makes images of."""


@dataclass(frozen=True, kw_only=True)
class SnapshotRequest:
    """What was asked for: a snapshot of an instance, or of the host of that role in the run's last attempt."""

    instance: str | None = None
    run: str | None = None
    role: Role = Role.CHIEF
    index: int = 0
    name: str | None = None
    quiesce: Quiesce = Quiesce.PAUSE
    then: Then = Then.KEEP


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """The host as EC2, Systems Manager and the ledger know it. `run` is the one it was launched for and `kind` that
    run's; `busy` says that this run is not over, `family` is its job's name; `parent` is the image it started from
    (None where that is gone) and `image` that one's id; `step` is that of the run's last checkpoint."""

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
    family: str | None = None
    step: int | None = None


def read_input(execution_input: object) -> SnapshotRequest | InputFaults:
    """What the execution's input asks for, or every fault of it."""
    faults = Faults()
    section = Section(execution_input, "", KEYS, faults)
    instance = section.text(
        "instance", pattern=INSTANCE, allowed="an instance's id (i- and 8 to 17 hex digits)"
    )
    run = section.text("run", pattern=RUN_ID, allowed="a run's id")
    given = [key for key in ("instance", "run") if section.given(key)]
    if len(given) != 1:
        found = "both instance and run" if given else "neither instance nor run"
        faults.add("", f'found {found}; give {{"instance": "i-..."}} or {{"run": "..."}}')
    for key in ("role", "index"):
        if section.given(key) and given == ["instance"]:
            section.fault(key, "says which host of a run is meant; with instance it means nothing")
    role = Role(section.choice("role", Role.CHIEF, Role))
    index = section.count("index", 0, least=0, most=999)
    words = "a name of 1 to 40 lower-case letters, digits and hyphens that begins with a letter"
    name = section.text("name", pattern=NAME, allowed=words)
    quiesce = Quiesce(section.choice("quiesce", Quiesce.PAUSE, Quiesce))
    then = Then(section.choice("then", Then.KEEP, Then))
    if faults.found:
        return _refuse(faults)
    return SnapshotRequest(
        instance=instance, run=run, role=role, index=index, name=name, quiesce=quiesce, then=then
    )


def assigned(request: SnapshotRequest, assignments: Collection[Assignment]) -> str | InputFaults:
    """The instance with the role and index that were asked for."""
    for assignment in assignments:
        if (assignment.role, assignment.index) == (request.role, request.index):
            return assignment.instance
    there = (
        ", ".join(f"{assignment.role} {assignment.index}" for assignment in assignments)
        or "none, since it has launched no host"
    )
    return refused("role", f"the run {request.run} has no {request.role} {request.index}; it has {there}")


def refused(path: str, problem: str) -> InputFaults:
    """The refusal of one fault."""
    return InputFaults(WHAT, (Fault(path, problem),), so=SO)


def unknown(request: SnapshotRequest, instance: str) -> InputFaults:
    """EC2 does not know the instance, or has forgotten it since its end."""
    where = "instance" if request.instance else "run"
    return refused(
        where,
        f"EC2 knows no instance {instance}: it never existed in this region, or it ended more than an hour ago; "
        "only a host that is running or stopped can be imaged",
    )


def admit(request: SnapshotRequest, host: HostFacts, *, baked: Collection[str]) -> Imaging | InputFaults:
    """The snapshot, or every reason against it. `baked` are the names of the families of baked images."""
    faults = Faults()
    if not host.mine:
        faults.add(
            "instance", f"{host.instance} is no host of this yard: it lacks the yard's tag trainyard:yard"
        )
        return _refuse(faults)
    _check_state(host, request, faults)
    _check_run(host, request, faults)
    family = request.name or _default_family(host)
    if family in baked:
        faults.add(
            "name",
            f"{family} is the name of a recipe, whose images the bake makes; give another name, so that the newest "
            f"image of {family} stays a baked one",
        )
    if faults.found:
        return _refuse(faults)
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
        versions=parent_tags(host.parent),
    )


def summarise(
    run: str,
    row: RunRow | None,
    concluded: Conclusion,
    *,
    bucket: str,
    image: str | None,
    now: datetime,
) -> dict[str, Any]:
    """summary.json of a snapshot; of one that was refused, or that Admit could not write down, that and why. `image` is
    the one that there is: also where the host could not be ended as asked."""
    imaging = row.imaging if row else None
    created = row.created if row else now
    return {
        "run": run,
        "kind": "imaged" if concluded.error is None else concluded.outcome.value,
        "outcome": concluded.outcome.value,
        "reason": concluded.reason,
        "error": concluded.error,
        "created": wire.stamp(created),
        "ended": wire.stamp(now),
        "seconds": round((now - created).total_seconds(), 3),
        "execution_arn": row.execution_arn if row else None,
        "image": image,
        "family": imaging.family if imaging else None,
        "instance": imaging.instance if imaging else None,
        "host_run": imaging.host_run if imaging else None,
        "parent": imaging.parent if imaging else None,
        "step": imaging.step if imaging else None,
        "quiesce": imaging.quiesce if imaging else None,
        "then": imaging.then if imaging else None,
        "where": {"folder": f"s3://{bucket}/runs/{run}/"},
    }


def _default_family(host: HostFacts) -> str:
    """The job's name; of a host without a program the name of the snapshots that it came from; else the instance."""
    if host.kind == "train" and host.family:
        return host.family
    parent = host.parent
    if parent and parent.tags.get("trainyard:kind") == "snapshot" and parent.family:
        return parent.family
    return host.instance


def _check_state(host: HostFacts, request: SnapshotRequest, faults: Faults) -> None:
    """What the instance itself does not allow."""
    if host.state not in IMAGED:
        wait = "; wait until it runs" if host.state == "pending" else ""
        wait = "; wait until it is stopped" if host.state == "stopping" else wait
        faults.add(
            "instance", f"{host.instance} is {host.state}; a host that runs or is stopped can be imaged{wait}"
        )
        return
    if host.market is Market.SPOT:
        for key, word in (("quiesce", request.quiesce), ("then", request.then)):
            if word == "stop":
                instead = (
                    "pause or reboot" if key == "quiesce" else "terminate, and launch from the image later"
                )
                faults.add(
                    key,
                    f"found stop, but {host.instance} is a spot host of a fleet, which EC2 can terminate and never "
                    f"stop; take {instead}",
                )
    if host.state == "running" and request.quiesce is Quiesce.PAUSE and not host.online:
        faults.add(
            "quiesce",
            f"found pause, but Systems Manager does not know {host.instance}, so that nothing on it can be paused: it "
            "still boots, hangs or is cut off; try again in a minute, or take reboot",
        )


def _check_run(host: HostFacts, request: SnapshotRequest, faults: Faults) -> None:
    """What the run that the host works for does not allow."""
    if not host.busy:
        return
    if host.kind == "bake":
        faults.add(
            "instance", f"{host.instance} is the builder of {host.run}, which makes an image of it by itself"
        )
        return
    what = "is being launched" if host.kind == "launch" else "trains on it"
    for key, word, harmless in (
        ("quiesce", request.quiesce, Quiesce.PAUSE),
        ("then", request.then, Then.KEEP),
    ):
        if word != harmless:
            faults.add(
                key,
                f"found {word}, but {host.run} {what} and would lose the host; take {harmless}, or wait for the run's "
                "end (a job's after.image makes an image then)",
            )


def _refuse(faults: Faults) -> InputFaults:
    return InputFaults(WHAT, tuple(Fault(path, problem) for path, problem in faults.found), so=SO)
