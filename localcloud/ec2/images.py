"""Images: what exists from the start, CreateImage as a copy of a host's disk, DeregisterImage with its snapshots."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Any

from ministack.core.responses import get_region, new_uuid, request_scope
from ministack.services import ssm as ministack_ssm
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.amis import Ami
from moto.ec2.responses._base_response import EC2BaseResponse
from moto.ec2.utils import random_ami_id

from localcloud import events
from localcloud.ec2.launch import plain, tags_for
from localcloud.ec2.lifecycle import wrong_state
from localcloud.ec2.pages import cut, page
from localcloud.ec2.records import backend
from localcloud.ec2.transport import LOCK
from localcloud.ec2.world import world
from localcloud.facts import BaseImage

log = logging.getLogger(__name__)

AMAZON = "137112412989"
NAME = re.compile(r"[A-Za-z0-9()\[\] ./\-'@_]{3,128}")


class ImageActions(EC2BaseResponse):
    """CreateImage, DescribeImages, DeregisterImage."""

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
        world().hypervisor.capture(source.id, image.id, _captured(image, self.current_account, self.region))
        return ActionResult({"ImageId": image.id})

    def describe_images(self) -> ActionResult:
        self.error_on_dryrun()
        ids = self._get_param("ImageIds", [])
        found = self.ec2_backend.describe_images(
            ami_ids=ids,
            filters=None if ids else self._filters_from_querystring(),
            exec_users=self._get_param("ExecutableUsers", []),
            owners=self._get_param("Owners", []),
        )
        missing = set(ids) - {image.id for image in found}
        if missing:
            raise EC2ClientError(
                "InvalidAMIID.NotFound", f"The image id '[{sorted(missing)[0]}]' does not exist"
            )
        shown, token = cut(self, found)
        return ActionResult({"Images": shown, "NextToken": token})

    def deregister_image(self) -> ActionResult:
        """The image; with DeleteAssociatedSnapshots also what it is made of, reported one by one."""
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
            self.ec2_backend.delete_snapshot(image.ebs_snapshot.id)
            results.append({"SnapshotId": image.ebs_snapshot.id, "ReturnCode": "success"})
        world().hypervisor.delete_image(image_id)
        _tell(image_id, self.region, "deregistered")
        return ActionResult({"Return": True, "DeleteSnapshotResults": results})

    def describe_snapshots(self) -> ActionResult:
        """moto does not look at whose they are."""
        self.error_on_dryrun()
        names = {"self": self.current_account, "amazon": AMAZON}
        owners = {names.get(owner, owner) for owner in self._get_param("OwnerIds", [])}
        found = self.ec2_backend.describe_snapshots(
            snapshot_ids=self._get_param("SnapshotIds", []), filters=self._filters_from_querystring()
        )
        return page(self, "Snapshots", [one for one in found if not owners or one.owner_id in owners])

    def delete_snapshot(self) -> ActionResult:
        """A snapshot that an image stands on stays."""
        snapshot_id = self._get_param("SnapshotId")
        user = next((a for a in self.ec2_backend.amis.values() if a.ebs_snapshot.id == snapshot_id), None)
        if user is not None:
            raise EC2ClientError(
                "InvalidSnapshot.InUse", f"The snapshot {snapshot_id} is currently in use by {user.id}"
            )
        return super().delete_snapshot()


def _new_image(source: Any, name: str, request: dict[str, Any]) -> Ami:
    """A pending image of the instance, as large as its root volume."""
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
    )
    image.virtualization_type, image.architecture, image.public = "hvm", "x86_64", False
    image.state = "pending"
    root = source.block_device_mapping.get(source.root_device_name)
    _size(image, root.size if root is not None else 8)
    image.add_tags(tags_for(request, "image"))
    image.ebs_snapshot.add_tags(tags_for(request, "snapshot"))
    store.amis[image_id] = image
    return image


def _captured(image: Ami, account: str, region: str) -> Callable[[str | None], None]:
    """What to do when the copy of the disk is finished, or failed with a reason."""

    def finish(error: str | None) -> None:
        with request_scope(account, region), LOCK:
            if image.id not in backend().amis or image.state != "pending":
                return
            image.state = "available" if error is None else "failed"
            if error is not None:
                image.state_reason = {"Code": "Server.InternalError", "Message": error}
            _tell(image.id, region, image.state, error or "")
            world().lifecycle.changed()

    def done(error: str | None) -> None:
        world().timers.after(world().facts.latencies.image, lambda: finish(error))

    return done


def resume() -> None:
    """After a restart of the current region: an image that was being copied is lost."""
    for image in backend().amis.values():
        if image.state == "pending":
            image.state = "failed"
            image.state_reason = {
                "Code": "Server.InternalError",
                "Message": "The local cloud ended while it copied the disk.",
            }


def seed(images: dict[str, BaseImage]) -> None:
    """The facts' images, in the current region; those that exist stay as they are."""
    store = backend()
    for image_id, facts in images.items():
        if image_id in store.amis:
            continue
        image = Ami(
            store,
            image_id,
            name=facts.name,
            description=facts.description,
            public=True,
            owner_id=AMAZON,
            owner_alias="amazon",
            virtualization_type="hvm",
            architecture="x86_64",
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name=facts.root_device,
            image_location=f"amazon/{facts.name}",
            region_name=f"{store.region_name}a",
        )
        _size(image, facts.root_gib)
        store.amis[image_id] = image


def publish_parameters(images: dict[str, BaseImage]) -> None:
    """The public SSM parameters under which AWS publishes its images; users cannot write there."""
    for image_id, facts in images.items():
        if facts.parameter is not None:
            ministack_ssm._parameters[facts.parameter] = {
                "Name": facts.parameter,
                "Value": image_id,
                "OriginalValue": image_id,
                "Type": "String",
                "KeyId": "",
                "Version": 1,
                "ARN": f"arn:aws:ssm:{get_region()}::parameter{facts.parameter}",
                "LastModifiedDate": time.time(),
                "DataType": "aws:ec2:image",
                "Description": "",
                "Tier": "Standard",
                "AllowedPattern": "",
                "Policies": [],
                "Labels": [],
            }


def devices(image: Ami) -> list[dict[str, Any]]:
    """Replaces moto's fixed 15 GiB: the size is that of the snapshot."""
    ebs = {
        "SnapshotId": image.ebs_snapshot.id,
        "VolumeSize": image.ebs_snapshot.volume.size,
        "DeleteOnTermination": True,
        "VolumeType": "gp3",
        "Encrypted": False,
    }
    return [{"DeviceName": image.root_device_name, "Ebs": ebs}]


def _size(image: Ami, gib: int) -> None:
    image.ebs_snapshot.volume.size = int(gib)


def _tell(image_id: str, region: str, state: str, error: str = "") -> None:
    detail = {"RequestId": new_uuid(), "ImageId": image_id, "State": state, "ErrorMessage": error}
    events.emit("aws.ec2", "EC2 AMI State Change", detail, [f"arn:aws:ec2:{region}::image/{image_id}"])
