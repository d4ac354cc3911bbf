"""Images: base images, CreateImage as a copy of a host's disk, and DeregisterImage with its snapshots."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from ministack.core.responses import get_region, new_uuid, request_scope
from ministack.services import ssm as ministack_ssm
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.amis import Ami
from moto.ec2.responses import EC2Response
from moto.ec2.utils import random_ami_id

from localcloud.base.settings import BaseImage
from localcloud.services.ec2.actions.base import Actions, Ec2, cut, matches, page
from localcloud.services.ec2.actions.template import plain, tags_for
from localcloud.services.ec2.faults import ImageFaults
from localcloud.services.ec2.instances.lifecycle import wrong_state
from localcloud.services.ec2.store.records import LOCK, backend, now, tag_filters
from localcloud.services.eventbridge import service_events
from localcloud.services.iam.checks import is_skipped

AMAZON = "137112412989"
NAME = re.compile(r"[A-Za-z0-9()\[\] ./\-'@_]{3,128}")


class ImageActions(Actions):
    """Actions for images, snapshots and volumes."""

    def create_volume(self) -> ActionResult:
        made = EC2Response.create_volume(self)
        self._show_empty_snapshot_ids()
        return made

    def describe_volumes(self) -> ActionResult:
        self._show_empty_snapshot_ids()
        return EC2Response.describe_volumes(self)

    def _show_empty_snapshot_ids(self) -> None:
        """Show an empty snapshot id for a volume without a snapshot, as EC2 does."""
        for volume in self.ec2_backend.volumes.values():
            volume.snapshot_id = volume.snapshot_id or ""

    def create_image(self) -> ActionResult:
        request = plain(self.params)
        name, source = request["Name"], self.ec2_backend.get_instance(request["InstanceId"])
        if not NAME.fullmatch(name):
            raise EC2ClientError(
                "InvalidAMIName.Malformed",
                "AMI names must be between 3 and 128 characters long, and may contain letters, digits, spaces and "
                "( ) [ ] . / - ' @ _",
            )
        for specification in request.get("TagSpecifications") or []:
            if specification["ResourceType"] not in ("image", "snapshot"):
                raise EC2ClientError(
                    "InvalidParameterValue",
                    f"'{specification['ResourceType']}' is not a valid taggable resource type for this operation.",
                )
        if source.state not in ("running", "stopped"):
            raise wrong_state(source, "imaged")
        taken = next(
            (
                a
                for a in self.ec2_backend.amis.values()
                if a.name == name and a.owner_id == self.current_account
            ),
            None,
        )
        if taken is not None:
            raise EC2ClientError(
                "InvalidAMIName.Duplicate", f"AMI name {name} is already in use by AMI {taken.id}"
            )
        self.error_on_dryrun()
        image = _new_image(source, name, request)
        self.ec2.hypervisor.capture(
            source.id,
            image.id,
            _make_callback(self.ec2, image, self.current_account, self.region),
            reboot=source.state == "running" and str(request.get("NoReboot")).lower() != "true",
        )
        return ActionResult({"ImageId": image.id})

    def describe_images(self) -> ActionResult:
        self.error_on_dryrun()
        note_wheels(self.ec2.settings.images)
        ids, store = self._get_param("ImageIds", []), self.ec2_backend
        for image_id in ids:
            if image_id not in store.amis:
                raise EC2ClientError("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
        found = (
            [store.amis[image_id] for image_id in dict.fromkeys(ids)] if ids else list(store.amis.values())
        )
        owners = _accounts(self._get_param("Owners", []), self.current_account)
        users = set(self._get_param("ExecutableUsers", []))
        wanted = self._filters_from_querystring()
        matching = [
            image
            for image in found
            if (not owners or image.owner_id in owners)
            and (not users or image.is_public)
            and matches(_filters_of_image(image), wanted)
        ]
        shown, token = cut(self, matching)
        return ActionResult({"Images": shown, "NextToken": token})

    def deregister_image(self) -> ActionResult:
        """Delete the image and, with DeleteAssociatedSnapshots, its snapshots. The answer lists each snapshot."""
        image_id = self._get_param("ImageId")
        image = self.ec2_backend.amis.get(image_id)
        if image is None:
            code = (
                "InvalidAMIID.Unavailable"
                if image_id in self.ec2_backend.deleted_amis
                else "InvalidAMIID.NotFound"
            )
            raise EC2ClientError(code, f"The image id '[{image_id}]' does not exist")
        if image.owner_id != self.current_account:
            raise EC2ClientError("AuthFailure", "Not authorized for images: " + image_id)
        self.error_on_dryrun()
        self.ec2_backend.deregister_image(image_id)
        results = []
        if str(self._get_param("DeleteAssociatedSnapshots")).lower() == "true":
            results.append(_delete_snapshot_of(image, self.ec2.image_faults))
        self.ec2.hypervisor.delete_image(image_id)
        _announce(image_id, self.region, "deregistered")
        return ActionResult({"Return": True, "DeleteSnapshotResults": results})

    def describe_snapshots(self) -> ActionResult:
        """Filter snapshots by owner, which moto ignores."""
        self.error_on_dryrun()
        owners = _accounts(self._get_param("OwnerIds", []), self.current_account)
        wanted = self._filters_from_querystring()
        found = self.ec2_backend.describe_snapshots(snapshot_ids=self._get_param("SnapshotIds", []))
        matching = [
            snapshot
            for snapshot in found
            if (not owners or snapshot.owner_id in owners) and matches(_filters_of_snapshot(snapshot), wanted)
        ]
        return page(self, "Snapshots", matching)

    def delete_snapshot(self) -> ActionResult:
        """Delete a snapshot unless an image uses it."""
        snapshot_id = self._get_param("SnapshotId")
        user = next((a for a in self.ec2_backend.amis.values() if a.ebs_snapshot.id == snapshot_id), None)
        if user is not None:
            raise EC2ClientError(
                "InvalidSnapshot.InUse", f"The snapshot {snapshot_id} is currently in use by {user.id}"
            )
        return super().delete_snapshot()


def _accounts(owners: list[str], own: str) -> set[str]:
    """Return the accounts in Owners or OwnerIds."""
    names = {"self": own, "amazon": AMAZON}
    return {names.get(owner, owner) for owner in owners}


def _filters_of_image(image: Any) -> dict[str, list[str]]:
    """Return the filter values of an image."""
    root = image.block_device_mappings[0]["Ebs"]
    return {
        "architecture": [image.architecture],
        "block-device-mapping.snapshot-id": [root["SnapshotId"]],
        "block-device-mapping.volume-size": [str(root["VolumeSize"])],
        "creation-date": [timestamp(image.creation_date)],
        "description": [image.description or ""],
        "image-id": [image.id],
        "image-type": [image.image_type],
        "is-public": [str(image.is_public).lower()],
        "name": [image.name],
        "owner-alias": [image.owner_alias] if image.owner_alias else [],
        "owner-id": [image.owner_id],
        "root-device-name": [image.root_device_name],
        "root-device-type": [image.root_device_type],
        "source-instance-id": [image.source_instance_id] if image.source_instance_id else [],
        "state": [image.state],
        "virtualization-type": [image.virtualization_type],
        **tag_filters(image.id),
    }


def _filters_of_snapshot(snapshot: Any) -> dict[str, list[str]]:
    """Return the filter values of a snapshot."""
    return {
        "description": [snapshot.description],
        "encrypted": [str(snapshot.encrypted).lower()],
        "owner-id": [snapshot.owner_id],
        "snapshot-id": [snapshot.id],
        "start-time": [timestamp(snapshot.start_time)],
        "status": [snapshot.status],
        "storage-tier": [snapshot.storage_tier],
        "volume-id": [snapshot.volume_id],
        "volume-size": [str(snapshot.volume_size)],
        **tag_filters(snapshot.id),
    }


def _delete_snapshot_of(image: Any, faults: ImageFaults) -> dict[str, str]:
    """Delete the snapshot of a deregistered image. Return its entry for the answer, also for a failure."""
    snapshot_id, code = image.ebs_snapshot.id, faults.take_kept_snapshot()
    if code is None and is_skipped("ec2:DeleteSnapshot"):
        code = "missing-permissions"
    if code is None:
        backend().delete_snapshot(snapshot_id)
    return {"SnapshotId": snapshot_id, "ReturnCode": code or "success"}


def _new_image(source: Any, name: str, request: dict[str, Any]) -> Ami:
    """Create a pending image of the instance, with a snapshot of its root volume."""
    store, image_id = backend(), random_ami_id()
    image = Ami(
        store,
        image_id,
        instance=source,
        name=name,
        description=request.get("Description") or "",
        snapshot_description=f"Created by CreateImage({source.id}) for {image_id}",
        hypervisor="xen",
        region_name=source.placement.zone,
        root_device_type="ebs",
        root_device_name=source.root_device_name,
        creation_date=_after_all_others(),
        image_location=f"{source.owner_id}/{name}",
    )
    image.virtualization_type, image.public = "hvm", False
    image.state, image.ebs_snapshot.status = "pending", "pending"
    root = source.block_device_mapping[source.root_device_name]
    _size(image, root.size)
    image.ebs_snapshot.volume.id = root.volume_id
    image.ebs_snapshot.encrypted = store.get_volume(root.volume_id).encrypted
    image.ebs_snapshot.kms_key_id = store.get_volume(root.volume_id).kms_key_id
    image.add_tags(tags_for(request, "image"))
    image.ebs_snapshot.add_tags(tags_for(request, "snapshot"))
    store.amis[image_id] = image
    return image


def _after_all_others() -> datetime:
    """Return the current time, at least one millisecond after the latest image, so that dates show the order."""
    last: datetime = max(image.creation_date for image in backend().amis.values())
    return max(now().replace(tzinfo=None), last + timedelta(milliseconds=1))


def timestamp(moment: datetime) -> str:
    """Format a date like EC2, with the milliseconds that moto omits."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _make_callback(ec2: Ec2, image: Ami, account: str, region: str) -> Callable[[str | None], None]:
    """Return the callback for the end of the disk copy, which gets the error or None."""
    foreseen = ec2.image_faults.take_failure()
    slowed = ec2.image_faults.take_delay()

    def finish(error: str | None) -> None:
        with request_scope(account, region), LOCK:
            if image.id not in backend().amis:  # deregistered in the meantime
                ec2.hypervisor.delete_image(image.id)
            elif image.state == "pending":
                _finish(ec2, image, region, error)

    def done(error: str | None) -> None:
        slowed.finish = partial(finish, foreseen or error)
        ec2.timers.after(ec2.settings.latencies.image + slowed.seconds, slowed.finish)

    return done


def _finish(ec2: Ec2, image: Ami, region: str, error: str | None) -> None:
    if error is None:
        image.state, image.ebs_snapshot.status = "available", "completed"
    else:
        _fail(image, error)
        ec2.hypervisor.delete_image(image.id)
    _announce(image.id, region, image.state, error or "")
    ec2.lifecycle.changed()


def _fail(image: Ami, reason: str) -> None:
    image.state, image.ebs_snapshot.status = "failed", "error"
    image.state_reason = {"Code": "Server.InternalError", "Message": reason}


def resume() -> None:
    """Fail images whose copy a restart interrupted, in the current region."""
    for image in backend().amis.values():
        if image.state == "pending":
            _fail(image, "The local cloud ended while it copied the disk.")


def seed(images: dict[str, BaseImage]) -> None:
    """Add the base images of the settings to the current region. Existing ones stay unchanged."""
    store = backend()
    for image_id, base_image in images.items():
        if image_id in store.amis:
            continue
        image = Ami(
            store,
            image_id,
            name=base_image.name,
            description=base_image.description,
            public=True,
            owner_id=AMAZON,
            owner_alias="amazon",
            virtualization_type="hvm",
            architecture=base_image.architecture,
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name=base_image.root_device,
            image_location=f"amazon/{base_image.name}",
            region_name=f"{store.region_name}a",
        )
        _size(image, base_image.root_gib)
        store.amis[image_id] = image


def note_wheels(images: dict[str, BaseImage]) -> None:
    """Set a base image's creation time to the last change of its wheels (`make jupyter` adds some).

    AWS would publish a new image, so a bake from the old one is outdated.
    """
    store = backend()
    for image_id, base_image in images.items():
        wheels = Path(base_image.wheels) if base_image.wheels else None
        if wheels and wheels.is_dir() and image_id in store.amis:
            changed = datetime.fromtimestamp(wheels.stat().st_mtime, UTC)
            store.amis[image_id].creation_date = changed.replace(tzinfo=None)


def publish_parameters(images: dict[str, BaseImage]) -> None:
    """Publish the image ids in the public SSM parameters of AWS, which users cannot write."""
    for image_id, base_image in images.items():
        if base_image.parameter is not None:
            ministack_ssm._parameters[base_image.parameter] = {
                "Name": base_image.parameter,
                "Value": image_id,
                "OriginalValue": image_id,
                "Type": "String",
                "KeyId": "",
                "Version": 1,
                "ARN": f"arn:aws:ssm:{get_region()}::parameter{base_image.parameter}",
                "LastModifiedDate": time.time(),
                "DataType": "aws:ec2:image",
                "Description": "",
                "Tier": "Standard",
                "AllowedPattern": "",
                "Policies": [],
                "Labels": [],
            }


def devices(image: Ami) -> list[dict[str, Any]]:
    """Return the block devices with the snapshot's size. moto reports 15 GiB."""
    ebs = {
        "SnapshotId": image.ebs_snapshot.id,
        "VolumeSize": image.ebs_snapshot.volume.size,
        "DeleteOnTermination": True,
        "VolumeType": "gp3",
        "Encrypted": image.ebs_snapshot.encrypted,
    }
    return [{"DeviceName": image.root_device_name, "Ebs": ebs}]


def _size(image: Ami, gib: int) -> None:
    image.ebs_snapshot.volume.size = int(gib)


def _announce(image_id: str, region: str, state: str, error: str = "") -> None:
    detail = {"RequestId": new_uuid(), "ImageId": image_id, "State": state, "ErrorMessage": error}
    service_events.emit(
        "aws.ec2", "EC2 AMI State Change", detail, [f"arn:aws:ec2:{region}::image/{image_id}"]
    )
