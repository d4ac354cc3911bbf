"""Images and snapshots: CreateImage, DeregisterImage, and the images that exist from the start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from simulation.aws.ec2 import arns
from simulation.aws.ec2.lifecycle import Lifecycle
from simulation.aws.ec2.model import Image, Instance, Snapshot
from simulation.aws.ec2.requests import (
    all_fit,
    check_tags,
    expect,
    filters_of,
    page,
    tag_list,
    tags_for,
    unknown_ids,
)
from simulation.aws.endpoint.api import (
    ACCOUNT,
    REGION,
    Answer,
    Caller,
    Check,
    Request,
    ServiceError,
    Structure,
)
from simulation.aws.endpoint.parameters import with_token

AMAZON = "137112412989"
OWNERS = {"self": ACCOUNT, "amazon": AMAZON}
NAME = re.compile(r"[A-Za-z0-9()\[\] ./\-'@_]{3,128}")
ID = re.compile(r"ami-[0-9a-f]{8,17}")
FILTERS = frozenset({"architecture", "image-id", "name", "owner-id", "source-instance-id", "state"})
OF_SNAPSHOTS = frozenset({"owner-id", "snapshot-id", "status", "volume-id"})


class ImageCalls(Lifecycle):
    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.image_failures: list[str] = []
        """Reasons with which the next images fail, the first entry for the next image."""
        self.kept_snapshots: list[str] = []
        """ReturnCodes for the next snapshots that EC2 fails to delete: `internal-error`, `client-error`."""
        self._deregistered: set[str] = set()
        self._newest = self.world.now

    # ------------------------------------------------------------------------- plain

    def add_image(
        self,
        image_id: str,
        name: str,
        *,
        owner: str = AMAZON,
        architecture: str = "x86_64",
        gib: int = 75,
        tags: Mapping[str, str] | None = None,
        disk: Mapping[str, Any] | None = None,
    ) -> Image:
        now = self.world.now
        snapshot = Snapshot(
            id=self.world.new_id("snap-"), volume=self.world.new_id("vol-"), gib=gib, owner=owner, started=now,
            description=f"Of {name}", encrypted=False, tags=dict(tags or {}), state="completed",
        )  # fmt: skip
        image = Image(
            id=image_id, name=name, owner=owner, description="", architecture=architecture, root_device="/dev/sda1",
            snapshot=snapshot, created=self._creation(), known_at=now, tags=dict(tags or {}), state="available",
            disk=dict(disk or {}),
        )  # fmt: skip
        self.images[image_id], self.snapshots[snapshot.id] = image, snapshot
        return image

    def add_base_images(self) -> None:
        """Add the images that AWS publishes, from the settings."""
        for image_id, facts in self.catalogue.settings.images.items():
            self.add_image(image_id, facts.name, architecture=facts.architecture, gib=facts.root_gib)

    def fail_image(self, image_id: str, why: str) -> None:
        """Let a pending image fail."""
        image = self.images.get(image_id)
        if image is not None and image.state == "pending":
            image.state, image.why, image.snapshot.state = "failed", why, "error"
            self._announce(image, "failed", why)

    # ------------------------------------------------------------------------- operations

    def create_image(self, caller: Caller, request: Request) -> Answer:
        """Create an image, pending for minutes. Without NoReboot, the host is rebooted first."""
        expect(request, "InstanceId", "Name", "Description", "NoReboot", "TagSpecifications")
        name, (source,) = request["Name"], self._require([request["InstanceId"]])
        self._check_name(name)
        tags = {kind: tags_for(request, kind) for kind in ("image", "snapshot")}
        for each in tags.values():
            check_tags(each)
        if source.state not in ("running", "stopped"):
            raise ServiceError(
                "IncorrectInstanceState",
                f"The instance '{source.id}' is not in a state from which it can be imaged.",
            )
        image = self._begin_image(source, request, tags)
        self.images[image.id], self.snapshots[image.snapshot.id] = image, image.snapshot
        why = self.image_failures.pop(0) if self.image_failures else ""
        self.world.after(
            self._draw(self.settings.image),
            lambda: self._end_image(image, why),
            what=f"{image.id} is made",
        )
        if source.state == "running" and not request.get("NoReboot"):
            self.machines.reboot(source)
        return {"ImageId": image.id}

    def describe_images(self, caller: Caller, request: Request) -> Answer:
        expect(
            request,
            "ImageIds",
            "Owners",
            "Filters",
            "IncludeDisabled",
            "IncludeDeprecated",
            "MaxResults",
            "NextToken",
        )
        wanted, owners = (
            filters_of(request, FILTERS),
            [OWNERS.get(each, each) for each in request.get("Owners") or ()],
        )
        now, ids = self.world.now, request.get("ImageIds")
        found = (
            [self._image(each) for each in dict.fromkeys(ids)]
            if ids
            else [each for each in self.images.values() if each.known_at <= now]
        )
        matching = [
            each
            for each in found
            if (not owners or each.owner in owners) and all_fit(_image_fields(each), each.tags, wanted)
        ]
        rows, token = page(matching, request, self.settings.page)
        return with_token({"Images": [_describe(each) for each in rows]}, token)

    def deregister_image(self, caller: Caller, request: Request) -> Answer:
        """Deregister an image, even a pending one. The answer has the result for its snapshot."""
        expect(request, "ImageId", "DeleteAssociatedSnapshots")
        if request["ImageId"] in self._deregistered:
            raise ServiceError(
                "InvalidAMIID.Unavailable", f"The image ID '{request['ImageId']}' is no longer available"
            )
        image = self._image(request["ImageId"])
        if image.owner != ACCOUNT:
            raise ServiceError("AuthFailure", f"Not authorized for images: [{image.id}]", status=403)
        if image.protected:
            raise ServiceError(
                "OperationNotPermitted", f"The image '{image.id}' is protected from deregistration."
            )
        del self.images[image.id]
        self._deregistered.add(image.id)
        self._announce(image, "deregistered")
        if not request.get("DeleteAssociatedSnapshots"):
            return {"Return": True}
        result = {
            "SnapshotId": image.snapshot.id,
            "ReturnCode": self._delete_snapshot(caller, image.snapshot),
        }
        return {"Return": True, "DeleteSnapshotResults": [result]}

    def describe_snapshots(self, caller: Caller, request: Request) -> Answer:
        expect(request, "SnapshotIds", "OwnerIds", "Filters", "MaxResults", "NextToken")
        wanted, owners = (
            filters_of(request, OF_SNAPSHOTS),
            [OWNERS.get(o, o) for o in request.get("OwnerIds") or ()],
        )
        ids = request.get("SnapshotIds") or list(self.snapshots)
        unknown = [each for each in ids if each not in self.snapshots]
        if unknown:
            raise unknown_ids("snapshot", unknown)
        found = (self.snapshots[each] for each in dict.fromkeys(ids))
        matching = [
            each
            for each in found
            if (not owners or each.owner in owners) and all_fit(_snapshot_fields(each), each.tags, wanted)
        ]
        rows, token = page(matching, request, self.settings.page)
        return with_token({"Snapshots": [_snapshot(each) for each in rows]}, token)

    def delete_snapshot(self, caller: Caller, request: Request) -> Answer:
        expect(request, "SnapshotId")
        snapshot = self.snapshots.get(request["SnapshotId"])
        if snapshot is None:
            raise unknown_ids("snapshot", [request["SnapshotId"]])
        user = self._user(snapshot)
        if user:
            raise ServiceError(
                "InvalidSnapshot.InUse", f"The snapshot {snapshot.id} is currently in use by {user}"
            )
        del self.snapshots[snapshot.id]
        return {}

    # ------------------------------------------------------------------------- inside

    def _check_name(self, name: str) -> None:
        if not NAME.fullmatch(name):
            raise ServiceError(
                "InvalidAMIName.Malformed",
                "AMI names must be between 3 and 128 characters long, and may contain letters, numbers, '(', ')', '.', "
                "'-', '/' and '_'",
            )
        for image in self.images.values():
            if image.name == name and image.owner == ACCOUNT:
                raise ServiceError(
                    "InvalidAMIName.Duplicate", f"AMI name {name} is already in use by AMI {image.id}"
                )

    def _begin_image(
        self, source: Instance, request: Mapping[str, Any], tags: Mapping[str, dict[str, str]]
    ) -> Image:
        now, image_id = self.world.now, self.world.new_id("ami-")
        snapshot = Snapshot(
            id=self.world.new_id("snap-"), volume=source.volume, gib=source.disk_gib, owner=ACCOUNT, started=now,
            description=f"Created by CreateImage({source.id}) for {image_id}", encrypted=source.encrypted,
            tags=tags["snapshot"],
        )  # fmt: skip
        return Image(
            id=image_id, name=request["Name"], owner=ACCOUNT, description=request.get("Description") or "",
            architecture=source.architecture, root_device="/dev/sda1", snapshot=snapshot, created=self._creation(),
            known_at=now + timedelta(seconds=self._draw(self.settings.unknown)), tags=tags["image"], source=source.id,
            disk=dict(source.disk),
        )  # fmt: skip

    def _creation(self) -> datetime:
        """Return a creation date at least 1 ms after every earlier one, so that dates are ordered."""
        self._newest = max(self.world.now, self._newest + timedelta(milliseconds=1))
        return self._newest

    def _end_image(self, image: Image, why: str) -> None:
        if why:
            self.fail_image(image.id, why)
        elif image.state == "pending" and image.id in self.images:
            image.state, image.snapshot.state = "available", "completed"
            self._announce(image, "available")

    def _image(self, image_id: str) -> Image:
        if not ID.fullmatch(image_id):
            raise ServiceError("InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")')
        image = self.images.get(image_id)
        if image is None or image.known_at > self.world.now:
            raise unknown_ids("image", [image_id])
        return image

    def _user(self, snapshot: Snapshot) -> str | None:
        return next((image.id for image in self.images.values() if image.snapshot is snapshot), None)

    def _delete_snapshot(self, caller: Caller, snapshot: Snapshot) -> str:
        """Delete the snapshot of a deregistered image. Return DeregisterImage's ReturnCode."""
        if snapshot.id not in self.snapshots:
            return "success"
        if self._user(snapshot):
            return "skipped"
        if self.kept_snapshots:
            return self.kept_snapshots.pop(0)
        tags = arns.resource_tags(snapshot.tags)
        if not self.may(caller, Check("ec2:DeleteSnapshot", arns.build("snapshot", snapshot.id), tags)):
            return "missing-permissions"
        del self.snapshots[snapshot.id]
        return "success"

    def _announce(self, image: Image, state: str, error: str = "") -> None:
        detail = {
            "RequestId": self.world.new_id("00000000-0000-4000-8000-", 12),
            "ImageId": image.id,
            "State": state,
            "ErrorMessage": error,
        }
        self.emit("aws.ec2", "EC2 AMI State Change", detail, [f"arn:aws:ec2:{REGION}::image/{image.id}"])


def timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _image_fields(image: Image) -> dict[str, str | None]:
    return {
        "architecture": image.architecture,
        "image-id": image.id,
        "name": image.name,
        "owner-id": image.owner,
        "source-instance-id": image.source,
        "state": image.state,
    }


def _snapshot_fields(snapshot: Snapshot) -> dict[str, str | None]:
    return {
        "owner-id": snapshot.owner,
        "snapshot-id": snapshot.id,
        "status": snapshot.state,
        "volume-id": snapshot.volume,
    }


def _describe(image: Image) -> Structure:
    ebs = {
        "SnapshotId": image.snapshot.id,
        "VolumeSize": image.snapshot.gib,
        "DeleteOnTermination": True,
        "VolumeType": "gp3",
        "Encrypted": image.snapshot.encrypted,
    }
    shown: Structure = {
        "ImageId": image.id,
        "Name": image.name,
        "Description": image.description,
        "State": image.state,
        "OwnerId": image.owner,
        "Public": image.owner != ACCOUNT,
        "Architecture": image.architecture,
        "CreationDate": timestamp(image.created),
        "RootDeviceName": image.root_device,
        "RootDeviceType": "ebs",
        "ImageType": "machine",
        "VirtualizationType": "hvm",
        "DeregistrationProtection": "enabled-without-cooldown" if image.protected else "disabled",
        "BlockDeviceMappings": [{"DeviceName": image.root_device, "Ebs": ebs}],
    }
    if image.tags:
        shown["Tags"] = tag_list(image.tags)
    if image.source:
        shown["SourceInstanceId"] = image.source
    if image.why:
        shown["StateReason"] = {"Code": "Client.InternalError", "Message": image.why}
    return shown


def _snapshot(snapshot: Snapshot) -> Structure:
    shown = {
        "SnapshotId": snapshot.id,
        "VolumeId": snapshot.volume,
        "VolumeSize": snapshot.gib,
        "OwnerId": snapshot.owner,
        "StartTime": snapshot.started,
        "State": snapshot.state,
        "Progress": "100%" if snapshot.state == "completed" else "0%",
        "Description": snapshot.description,
        "Encrypted": snapshot.encrypted,
    }
    return {**shown, "Tags": tag_list(snapshot.tags)} if snapshot.tags else shown
