"""DescribeInstances, and operations on instances after their launch."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter

from simulation.aws.ec2 import arns
from simulation.aws.ec2.lifecycle import Lifecycle
from simulation.aws.ec2.model import BY_USER, CODES, Image, Instance, Snapshot
from simulation.aws.ec2.requests import (
    MOST_TAGS,
    all_fit,
    check_tags,
    exact,
    expect,
    filters_of,
    tag_list,
    unknown_ids,
)
from simulation.aws.endpoint.api import ACCOUNT, Answer, Caller, Request, ServiceError, Structure
from simulation.aws.endpoint.parameters import with_token

FIELDS: Mapping[str, Callable[[Instance], str | None]] = {
    "availability-zone": lambda one: one.zone,
    "image-id": lambda one: one.image,
    "instance-id": lambda one: one.id,
    "instance-lifecycle": lambda one: "spot" if one.spot else None,
    "instance-state-name": lambda one: one.state,
    "instance-type": lambda one: one.type,
    "private-ip-address": lambda one: one.address,
    "subnet-id": lambda one: one.subnet,
}
"""The keys of filters."""
MOST_TAGGED = 1000


class InstanceCalls(Lifecycle):
    def describe_instances(self, caller: Caller, request: Request) -> Answer:
        expect(request, "InstanceIds", "Filters", "MaxResults", "NextToken")
        ids, size = request.get("InstanceIds"), request.get("MaxResults")
        if ids and size is not None:
            raise ServiceError(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        if size is not None and not 5 <= int(size) <= 1000:
            raise ServiceError(
                "InvalidParameterValue",
                f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value greater than 5.",
            )
        wanted = filters_of(request, FIELDS)
        left = _after(self._require(ids) if ids else self._candidates(wanted), request.get("NextToken"))
        count = int(size or self.settings.page)
        matching = list(islice((each for each in left if self._is_wanted(each, wanted)), count + 1))
        shown, token = matching[:count], matching[count - 1].id if len(matching) > count else None
        return with_token({"Reservations": self._reservations(shown)}, token)

    def stop_instances(self, caller: Caller, request: Request) -> Answer:
        expect(request, "InstanceIds")
        chosen = self._require(request["InstanceIds"])
        for each in chosen:
            if each.state not in ("running", "stopping", "stopped"):
                raise _wrong_state(each, "stopped")
            if each.spot:
                raise ServiceError(
                    "UnsupportedOperation",
                    f"You can't stop the Spot Instance '{each.id}' because it is associated with a one-time Spot "
                    "Instance request. You can only stop Spot Instances associated with persistent Spot Instance "
                    "requests.",
                )
        before = [each.state for each in chosen]
        for each in chosen:
            if each.state == "running":
                self._halt(each, BY_USER)
        return {"StoppingInstances": _changes(chosen, before)}

    def start_instances(self, caller: Caller, request: Request) -> Answer:
        expect(request, "InstanceIds")
        chosen = self._require(request["InstanceIds"])
        for each in chosen:
            if each.state not in ("stopped", "pending", "running"):
                raise _wrong_state(each, "started")
        starting = [each for each in chosen if each.state == "stopped"]
        before = [each.state for each in chosen]
        for pool, count in Counter(each.pool for each in starting).items():
            refusal = self.pools.grant(pool, count).refusal
            if refusal is not None:
                raise ServiceError(refusal.code, refusal.message)
        for each in starting:
            self._begin(each)
        return {"StartingInstances": _changes(chosen, before)}

    def terminate_instances(self, caller: Caller, request: Request) -> Answer:
        expect(request, "InstanceIds")
        chosen = self._require(request["InstanceIds"])
        before = [each.state for each in chosen]
        for each in chosen:
            if each.state not in ("shutting-down", "terminated"):
                self._end(each, BY_USER)
        return {"TerminatingInstances": _changes(chosen, before)}

    def modify_instance_attribute(self, caller: Caller, request: Request) -> Answer:
        expect(request, "InstanceId", "InstanceInitiatedShutdownBehavior")
        (instance,) = self._require([request["InstanceId"]])
        behavior = request["InstanceInitiatedShutdownBehavior"]["Value"]
        if behavior not in ("stop", "terminate"):
            raise ServiceError(
                "InvalidParameterValue",
                f"Value ({behavior}) for parameter instanceInitiatedShutdownBehavior is invalid.",
            )
        instance.shutdown_behavior = behavior
        return {}

    def create_tags(self, caller: Caller, request: Request) -> Answer:
        expect(request, "Resources", "Tags")
        ids, tags = request["Resources"], {tag["Key"]: tag.get("Value", "") for tag in request["Tags"]}
        check_tags(tags)
        if len(ids) > MOST_TAGGED:
            raise ServiceError(
                "InvalidParameterValue", f"At most {MOST_TAGGED} resources can be tagged at once."
            )
        chosen = [self._taggable(each) for each in ids]
        for each in chosen:
            own = {key for key in each.tags if not key.startswith("aws:")}
            if len(own | set(tags)) > MOST_TAGS:
                raise ServiceError(
                    "TagLimitExceeded", f"The maximum number of tags for a resource is {MOST_TAGS}."
                )
        for each in chosen:
            if isinstance(each, Instance):
                self._tag(each, tags)
            else:
                each.tags |= tags
        return {}

    def _taggable(self, resource: str) -> Instance | Image | Snapshot:
        kind = arns.kind_of(resource)
        if kind == "instance":
            return self._require([resource])[0]
        store: Mapping[str, Image | Snapshot] = self.images if kind == "image" else self.snapshots
        if kind not in ("image", "snapshot"):
            raise ServiceError("NotSimulated", f"EC2 does not simulate tagging {resource}")
        if resource not in store:
            raise unknown_ids(kind, [resource])
        return store[resource]

    # ------------------------------------------------------------------------- choosing

    def _candidates(self, wanted: Mapping[str, list[str]]) -> Iterable[Instance]:
        """Return the listed instances that may match, using the indexes."""
        self._forget()
        now = self.world.now
        found: Iterable[Instance]
        if "instance-id" in wanted and exact(wanted["instance-id"]):
            chosen = (self.instances.get(each) for each in sorted(set(wanted["instance-id"])))
            found = [each for each in chosen if each is not None]
        else:
            tags = [
                (name[4:], values[0])
                for name, values in wanted.items()
                if name.startswith("tag:") and len(values) == 1 and exact(values)
            ]
            groups = [self._tagged.get(tag, {}) for tag in tags] or [self.instances]
            found = min(groups, key=len).values()
        return [each for each in found if each.listed_at <= now]

    def _is_wanted(self, instance: Instance, wanted: Mapping[str, list[str]]) -> bool:
        tags = instance.tags if instance.tags_listed_at <= self.world.now else {}
        facts = {name: FIELDS[name](instance) for name in wanted if name in FIELDS}
        return all_fit(facts, tags, wanted)

    # ------------------------------------------------------------------------- showing

    def _reservations(self, chosen: Iterable[Instance]) -> list[Structure]:
        groups: dict[str, list[Structure]] = {}
        for each in chosen:
            groups.setdefault(each.reservation, []).append(self._cached_description(each))
        return [
            {"ReservationId": reservation, "OwnerId": ACCOUNT, "Instances": members}
            for reservation, members in groups.items()
        ]

    def _cached_description(self, instance: Instance) -> Structure:
        """Return the description, cached until the instance changes. Callers must not modify it."""
        if self.world.now < instance.tags_listed_at:
            return _describe(instance, {})
        if instance.shown is None:
            instance.shown = _describe(instance, instance.tags)
        return instance.shown


def _describe(instance: Instance, tags: Mapping[str, str]) -> Structure:
    shown: Structure = {
        "InstanceId": instance.id,
        "InstanceType": instance.type,
        "ImageId": instance.image,
        "State": {"Code": CODES[instance.state], "Name": instance.state},
        "StateTransitionReason": instance.transition,
        "LaunchTime": instance.launched.replace(microsecond=0),
        "Placement": {"AvailabilityZone": instance.zone, "Tenancy": "default"},
        "Architecture": instance.architecture,
        "RootDeviceName": "/dev/sda1",
        "RootDeviceType": "ebs",
        "ClientToken": instance.token,
        "MetadataOptions": {"State": "applied", **instance.metadata_options},
    }
    if tags:
        shown["Tags"] = tag_list(tags)
    if instance.spot:
        shown |= {"InstanceLifecycle": "spot", "SpotInstanceRequestId": instance.spot_request}
    if instance.reason is not None:
        code = instance.reason.code
        shown["StateReason"] = {"Code": code, "Message": f"{code}: {instance.reason.text}"}
    elif instance.state == "pending":
        shown["StateReason"] = {"Code": "pending", "Message": "pending"}
    return shown if instance.state == "terminated" else shown | _attachment_fields(instance)


def _attachment_fields(instance: Instance) -> Structure:
    """Return the fields that an instance loses when it is terminated."""
    disk = {
        "VolumeId": instance.volume,
        "Status": "attached",
        "DeleteOnTermination": True,
        "AttachTime": instance.created.replace(microsecond=0),
    }
    attached: Structure = {
        "PrivateIpAddress": instance.address,
        "PrivateDnsName": f"ip-{instance.address.replace('.', '-')}.ec2.internal",
        "SubnetId": instance.subnet,
        "VpcId": instance.vpc,
        "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": disk}],
        "SecurityGroups": [{"GroupId": group, "GroupName": group} for group in instance.security_groups],
    }
    if instance.profile:
        attached["IamInstanceProfile"] = {"Arn": instance.profile, "Id": "AIPASIMULATED"}
    return attached


def _after(found: Iterable[Instance], token: str | None) -> Sequence[Instance]:
    """Return the instances after the one in the token, even if that one is gone."""
    ranked = sorted(found, key=attrgetter("id"))
    return ranked[bisect.bisect_right(ranked, token, key=attrgetter("id")) :] if token else ranked


def _changes(chosen: list[Instance], before: list[str]) -> list[Structure]:
    return [
        {
            "InstanceId": each.id,
            "CurrentState": {"Code": CODES[each.state], "Name": each.state},
            "PreviousState": {"Code": CODES[state], "Name": state},
        }
        for each, state in zip(chosen, before, strict=True)
    ]


def _wrong_state(instance: Instance, wanted: str) -> ServiceError:
    return ServiceError(
        "IncorrectInstanceState",
        f"The instance '{instance.id}' is not in a state from which it can be {wanted}.",
    )
