"""A world with EC2, and launch requests for tests."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from simulation.aws.ec2 import Ec2, Instance, Settings
from simulation.aws.endpoint.api import Caller
from simulation.world.world import World

ME = Caller("train-launch", "arn:aws:iam::123456789012:role/launch")
PROFILE, ROLE = "arn:aws:iam::123456789012:instance-profile/hosts", "arn:aws:iam::123456789012:role/hosts"
AT_ONCE = Settings(unknown=(0, 0), boot=(10, 10), stop=(20, 20), terminate=(30, 30), image=(100, 100))


class Hosts:
    """Machines that only record their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def boot(self, instance: Instance) -> None:
        self.calls.append(("boot", instance.id))

    def stop(self, instance: Instance) -> None:
        self.calls.append(("stop", instance.id))

    def terminate(self, instance: Instance) -> None:
        self.calls.append(("terminate", instance.id))

    def reboot(self, instance: Instance) -> None:
        self.calls.append(("reboot", instance.id))

    def command(
        self, instance: Instance, command_id: str, document: str, parameters: Mapping[str, list[str]]
    ) -> None:
        self.calls.append((document, instance.id))


class Yard:
    """A world with EC2, and the events it emits."""

    def __init__(self, seed: int = 1, settings: Settings = AT_ONCE) -> None:
        self.world, self.hosts, self.events = World(seed), Hosts(), [("", "", "")]
        self.ec2 = Ec2(self.world, self._heard, self.hosts, settings=settings)
        self.ec2.add_base_images()
        self.ec2.add_image("ami-00000000000000aaa", "baked", owner="123456789012", tags={"yard": "y"})
        for number, zone in enumerate(self.ec2.catalogue.zones):
            self.ec2.add_subnet(f"subnet-{zone[-1]}", zone, cidr=f"10.73.{16 * number}.0/20")
        self.ec2.add_profile(PROFILE, ROLE)
        disk = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeType": "gp3", "Encrypted": True}}
        tags = [{"Key": "yard", "Value": "y"}]
        data = {
            "BlockDeviceMappings": [disk],
            "IamInstanceProfile": {"Arn": PROFILE},
            "InstanceInitiatedShutdownBehavior": "terminate",
            "MetadataOptions": {"HttpTokens": "required", "InstanceMetadataTags": "enabled"},
            "SecurityGroupIds": ["sg-1"],
            "TagSpecifications": [
                {"ResourceType": kind, "Tags": tags} for kind in ("instance", "network-interface")
            ],
        }
        self.ec2.add_template("lt-1", "hosts", data)

    def _heard(self, source: str, detail_type: str, detail: dict[str, Any], resources: list[str]) -> None:
        assert source == "aws.ec2"
        assert resources
        known = detail.get("instance-id") or detail.get("ImageId")
        state = detail.get("state") or detail.get("State") or detail.get("instance-action")
        self.events.append((detail_type, str(known), str(state)))

    def on(self, seconds: float) -> None:
        self.world.run(self.world.now + timedelta(seconds=seconds))

    def ask(self, operation: str, **request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(self.ec2, operation)(ME, request)
        return answer

    def fleet(
        self, count: int = 2, *, types: tuple[str, ...] = ("g5.xlarge",), **more: Any
    ) -> dict[str, Any]:
        return self.ask("create_fleet", **request(count, types, **more))

    def launch(self, count: int = 2, **more: Any) -> list[str]:
        return [each for group in self.fleet(count, **more)["Instances"] for each in group["InstanceIds"]]

    def seen(self, **how: Any) -> dict[str, str]:
        """Return states by id."""
        found = self.ask("describe_instances", **how)["Reservations"]
        return {each["InstanceId"]: each["State"]["Name"] for group in found for each in group["Instances"]}

    def described(self, instance: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.ask("describe_instances", InstanceIds=[instance])["Reservations"][0][
            "Instances"
        ][0]
        return shown


def request(
    count: int,
    types: tuple[str, ...],
    *,
    market: str = "spot",
    token: str = "",
    zone: str = "a",
    run: str = "r1",
    gib: int | None = None,
) -> dict[str, Any]:
    disk = [] if gib is None else [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": gib}}]
    options = {"SingleInstanceType": True, "SingleAvailabilityZone": True, "MinTargetCapacity": count}
    strategy = "capacity-optimized" if market == "spot" else "lowest-price"
    tags = [{"Key": "run", "Value": run}, {"Key": "yard", "Value": "y"}]
    return {
        "Type": "instant",
        "ClientToken": token or f"{run}/{count}/{types}/{zone}/{market}/{gib}"[:64],
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateId": "lt-1", "Version": "1"},
                "Overrides": [
                    {"InstanceType": each, "SubnetId": f"subnet-{zone}", "ImageId": "ami-00000000000000aaa"}
                    | ({"BlockDeviceMappings": disk} if disk else {})
                    for each in types
                ],
            }
        ],
        "TargetCapacitySpecification": {"TotalTargetCapacity": count, "DefaultTargetCapacityType": market},
        "SpotOptions" if market == "spot" else "OnDemandOptions": options | {"AllocationStrategy": strategy},
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tags} for kind in ("fleet", "instance", "volume")
        ],
    }
