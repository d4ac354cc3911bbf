"""Retention: which images of the yard stay, which go, why, and what each costs a month.

`of_images` applies one rule after the other; the first that holds is the reason. Parents of images that stay, stay
too. `of_snapshots` finds snapshots of missing images.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from lambdas.core.capacity.prices import Prices
from trainyard.core.model.images.image import AMI, Image, Stored
from trainyard.protocol.storage import Storage
from trainyard.values import serialization
from trainyard.values.fields import Flag, key, texts
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Record
from trainyard.values.validation import Fault, InputFaults

BROKEN = ("failed", "error", "invalid")
MAKING = ("pending", "transient")
MOST_DELETED = 100
"""The most images that one execution may delete."""
INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")
"""The family of an image of an unnamed launched host: the host's id."""
MOST_SHOWN = 10
"""The most failed deletions that a sentence names: the cause of an execution holds 32 KB."""


class Decision(StrEnum):
    """The decision about an image or a snapshot. `due` (report only) and `left` (EC2 refused) would be deleted."""

    KEPT = "kept"
    RETIRED = "retired"
    DUE = "due"
    LEFT = "left"


@dataclass(frozen=True, kw_only=True)
class RetentionInputs:
    """Everything that the decision depends on."""

    yard: str
    prices: Prices
    """The prices of the yard's region."""
    images: tuple[Image, ...]
    """All images that the yard made."""
    others: Mapping[str, Image]
    """Every other image of the account, by id."""
    snapshots: tuple[Stored, ...]
    current: str
    previous: str
    in_use: frozenset[str]
    """Images of instances, stopped ones included."""
    open_runs: frozenset[str]
    """Runs that have not ended."""
    named: Mapping[str, str]
    """The run that starts its hosts from an image, by image."""


@dataclass(frozen=True)
class RetentionPolicy:
    """The rule for families: the newest `keep_images` stay, and all images younger than `keep_days`. For a family
    named after a host only the age counts."""

    keep_images: int
    keep_days: int


@dataclass(frozen=True, kw_only=True)
class Disposition:
    """The decision about one image or snapshot."""

    id: str
    family: str
    created: str
    gib: int
    """The size of all its disks, as large as their volumes."""
    gib_month: float
    """Dollars for each GiB and month."""
    fate: Decision
    reason: str
    name: str = ""
    snapshots: tuple[str, ...] = ()

    @property
    def dollars_per_month(self) -> float:
        return round(self.gib * self.gib_month, 2)

    @property
    def stays(self) -> bool:
        return self.fate is Decision.KEPT


@dataclass(frozen=True, kw_only=True)
class RetireRequest:
    """The input of the workflow."""

    report_only: bool = key(False, Flag(), "Only report; delete nothing.")
    images: tuple[str, ...] = key(
        (),
        texts(AMI, "the id of an image, like ami-0123456789abcdef0", most=MOST_DELETED, distinct=True),
        "Delete these images only, however new they are.",
    )


def read_input(execution_input: object) -> RetireRequest | InputFaults:
    """Return the request in the execution's input, or all its faults."""
    request, section = Record(RetireRequest).read_document(execution_input)
    if not section.faults:
        return request
    return InputFaults("The execution's input", tuple(section.faults), so="; nothing was retired")


def decide_images(
    inputs: RetentionInputs, policy: RetentionPolicy, *, now: datetime
) -> tuple[Disposition, ...]:
    """Decide about each image, sorted by family, the newest first."""
    ordered = sorted(inputs.images, key=lambda image: (image.created, image.id), reverse=True)
    stay: dict[str, str] = {}
    seen: dict[str, int] = {}
    for image in ordered:
        usable = image.state not in (*BROKEN, *MAKING)
        seen[image.family] = seen.get(image.family, 0) + usable
        reason = _why_it_stays(image, inputs, policy, rank=seen[image.family], now=now)
        if reason:
            stay[image.id] = reason
    _with_parents(ordered, stay)
    decided = [_decide_image(image, stay.get(image.id), inputs, policy) for image in ordered]
    return tuple(sorted(decided, key=lambda disposition: disposition.family))


def decide_chosen(
    inputs: RetentionInputs, chosen: Sequence[str], policy: RetentionPolicy, *, now: datetime
) -> tuple[Disposition, ...] | InputFaults:
    """Decide about the images that a user named. If one of them must stay, return all faults instead. Age and rank
    do not keep a named image, and neither do images made from it."""
    known = {image.id: image for image in inputs.images}
    faults = [
        Fault(f"images[{index}]", f"{ami} is not an image of the yard {inputs.yard}")
        if ami not in known
        else Fault(f"images[{index}]", f"{ami} stays: {used}")
        for index, ami in enumerate(chosen)
        if ami not in known or (used := _why_it_is_needed(known[ami], inputs))
    ]
    if faults:
        return InputFaults("The execution's input", tuple(faults), so="; nothing was deleted")
    return tuple(
        replace(_decide_image(known[ami], None, inputs, policy), reason="a user has asked for it")
        for ami in chosen
    )


def decide_snapshots(inputs: RetentionInputs) -> tuple[Disposition, ...]:
    """Decide about each snapshot that the yard made for an image and that no image of the account uses."""
    every = {image.id: image for image in inputs.images} | dict(inputs.others)
    used = {snapshot.id for image in every.values() for snapshot in image.snapshots}
    loose = [
        each for each in inputs.snapshots if each.made and each.id not in used and each.image not in every
    ]
    return tuple(
        _decide_snapshot(each, inputs)
        for each in sorted(loose, key=lambda each: (each.family, each.created, each.id))
    )


def _decide_snapshot(snapshot: Stored, inputs: RetentionInputs) -> Disposition:
    made_now = _maker_runs(snapshot.makers, inputs)
    return Disposition(
        id=snapshot.id,
        family=snapshot.family,
        created=snapshot.created,
        gib=snapshot.gib,
        gib_month=inputs.prices.gib_month(Storage.SNAPSHOT),
        fate=Decision.KEPT if made_now else Decision.DUE,
        reason=made_now or "no image uses it",
    )


def _maker_runs(makers: Iterable[str], inputs: RetentionInputs) -> str | None:
    """Return why the products of these runs must stay; None if the runs have ended."""
    maker = next((run for run in makers if run in inputs.open_runs), None)
    return f"the run {maker}, which makes it, has not ended" if maker else None


def _why_it_stays(
    image: Image, inputs: RetentionInputs, policy: RetentionPolicy, *, rank: int, now: datetime
) -> str | None:
    """Return why the image stays; None if it goes. `rank` counts the usable images of its family from the newest, 1."""
    age = now - serialization.parse_timestamp(image.created)
    if used := _why_it_is_needed(image, inputs):
        return used
    if image.state in BROKEN:
        return None
    if rank <= policy.keep_images and not INSTANCE.fullmatch(image.family):
        newest = "the newest" if rank == 1 else f"number {rank} of the newest {policy.keep_images}"
        return f"it is {newest} {_of(image.family)}"
    if age < timedelta(days=policy.keep_days):
        return f"it is {age.days} days old, and all younger than {policy.keep_days} days stay"
    return None


def _why_it_is_needed(image: Image, inputs: RetentionInputs) -> str | None:
    """Return why not even a user may delete the image; None otherwise."""
    if image.id == inputs.current:
        return "it is the current image"
    if image.id == inputs.previous:
        return "it is the previous image, the target of a rollback"
    if image.id in inputs.in_use:
        return "running or stopped instances use it"
    if image.id in inputs.named:
        return f"the run {inputs.named[image.id]}, which has not ended, starts its hosts from it"
    made_now = _maker_runs((image.execution, image.run), inputs)
    if made_now:
        return made_now
    if image.state in MAKING:
        return f"it is {image.state}: EC2 is still making it"
    if image.protected and image.state not in BROKEN:
        return "it is protected from deregistration"
    return None


def _with_parents(images: Iterable[Image], stay: dict[str, str]) -> None:
    """Add the parents of all images that stay."""
    known = {image.id: image for image in images}
    for child in [known[stays] for stays in stay]:
        while (parent := known.get(child.parent)) is not None and parent.id not in stay:
            stay[parent.id] = f"{child.id}, which stays, was made from it"
            child = parent


def _decide_image(
    image: Image, stays: str | None, inputs: RetentionInputs, policy: RetentionPolicy
) -> Disposition:
    return Disposition(
        id=image.id,
        name=image.name,
        family=image.family,
        created=image.created,
        gib=sum(snapshot.gib for snapshot in image.snapshots),
        gib_month=inputs.prices.gib_month(Storage.SNAPSHOT),
        snapshots=tuple(snapshot.id for snapshot in image.snapshots),
        fate=Decision.KEPT if stays else Decision.DUE,
        reason=stays or _why_it_goes(image, policy),
    )


def _why_it_goes(image: Image, policy: RetentionPolicy) -> str:
    if image.state in BROKEN:
        why = f" ({image.reason})" if image.reason else ""
        return f"it is {image.state}{why}: no host can start from it"
    if INSTANCE.fullmatch(image.family):
        return f"it is the image of a host without a name, {policy.keep_days} days old or older, and nothing uses it"
    return (
        f"{policy.keep_images} newer images {_of(image.family)} stay, it is {policy.keep_days} days old or older, and "
        "nothing uses it"
    )


def _of(family: str) -> str:
    return f"of {family}" if family else "without a family"


def summary(images: Iterable[Disposition], snapshots: Iterable[Disposition]) -> str:
    """Summarize all decisions in a sentence."""
    dispositions = [*images, *snapshots]
    counts = {fate: [each for each in dispositions if each.fate is fate] for fate in Decision}
    dollars = {fate: sum(each.dollars_per_month for each in found) for fate, found in counts.items()}
    kept = f"{len(counts[Decision.KEPT])} kept (${dollars[Decision.KEPT]:.2f} a month at most)"
    parts = [kept, f"{len(counts[Decision.RETIRED])} retired (${dollars[Decision.RETIRED]:.2f})"]
    if counts[Decision.DUE]:
        parts.append(
            f"{len(counts[Decision.DUE])} due (${dollars[Decision.DUE]:.2f}), not deleted: report_only"
        )
    if counts[Decision.LEFT]:
        reasons = [f"{each.id}: {each.reason}" for each in counts[Decision.LEFT][:MOST_SHOWN]]
        if len(counts[Decision.LEFT]) > MOST_SHOWN:
            reasons.append(f"and {len(counts[Decision.LEFT]) - MOST_SHOWN} more, which the report names")
        left = (
            f"{len(counts[Decision.LEFT])} not deleted (${dollars[Decision.LEFT]:.2f}), tried again next time"
        )
        parts.append(f"{left}: {'; '.join(reasons)}")
    return f"Images and snapshots: {', '.join(parts)}."


def report(
    images: tuple[Disposition, ...],
    snapshots: tuple[Disposition, ...],
    policy: RetentionPolicy,
    *,
    inputs: RetentionInputs,
    now: datetime,
) -> dict[str, Any]:
    """Return the content of images/report.json."""
    return {
        "yard": inputs.yard,
        "made": serialization.timestamp(now),
        "keep_images": policy.keep_images,
        "keep_days": policy.keep_days,
        "dollars_per_gib_month": inputs.prices.gib_month(Storage.SNAPSHOT),
        "prices": inputs.prices.describe_source(storage=[Storage.SNAPSHOT]),
        "dollars_are": "at most, for the whole disks; EC2 bills only blocks that no earlier snapshot holds",
        "images": [_row(each, now) for each in images],
        "snapshots": [_row(each, now) for each in snapshots],
        "summary": summary(images, snapshots),
    }


def _row(disposition: Disposition, now: datetime) -> dict[str, Any]:
    row: dict[str, Any] = serialization.to_json(disposition)
    age = now - serialization.parse_timestamp(disposition.created)
    return row | {"age_days": age.days, "dollars_per_month": disposition.dollars_per_month}


def as_text(report: Mapping[str, Any]) -> str:
    """Return the content of images/report.txt, a table of report.json."""
    head = ("what", "family", "age", "size", "fate", "$ a month", "why")
    rows = [
        (
            str(row["id"]),
            str(row["family"]) or "-",
            f"{row['age_days']} d",
            f"{row['gib']} GiB",
            str(row["fate"]),
            f"{row['dollars_per_month']:.2f}",
            str(row["reason"]),
        )
        for row in (*report["images"], *report["snapshots"])
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head) - 1)]
    lines = [
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]])
        for row in (head, *rows)
    ]
    rule = (
        f"The newest {report['keep_images']} of every family stay, all younger than {report['keep_days']} days, and "
        "all that are in use or needed."
    )
    title = f"Images of {report['yard']}, {report['made']}"
    gib_month = f"${report['dollars_per_gib_month']} per GiB and month, {report['prices']}"
    dollars = f"Dollars are {report['dollars_are']} ({gib_month})."
    return "\n".join([title, rule, dollars, "", *lines, "", str(report["summary"]), ""])
