"""Make images of an idle host, tagged like images of a yard, without a bake."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs
from trainyard.client import Execution


@dataclass
class Shelf:
    """Images of one idle host, which are deleted at the end."""

    runs: Runs
    made: dict[str, str] = field(default_factory=dict)
    """AMIs by the names that the test gives them."""
    instances: list[str] = field(default_factory=list)

    @property
    def ec2(self) -> Any:
        return self.runs.yard.session.client("ec2")

    def host(self, image: str) -> str:
        (instance,) = self.ec2.run_instances(ImageId=image, InstanceType="t3.nano", MinCount=1, MaxCount=1)[
            "Instances"
        ]
        self.instances.append(instance["InstanceId"])
        self.ec2.get_waiter("instance_running").wait(
            InstanceIds=[instance["InstanceId"]], WaiterConfig={"Delay": 1, "MaxAttempts": int(PATIENCE)}
        )
        return str(instance["InstanceId"])

    def image(self, called: str, family: str, *, parent: str = "", yard: str = "trainyard") -> None:
        tags = {
            "trainyard:yard": yard,
            "trainyard:run": f"made-{called}",
            "trainyard:kind": "snapshot",
            "trainyard:family": family,
            "trainyard:parent": self.made.get(parent, ""),
        }
        marks = [{"Key": key, "Value": value} for key, value in tags.items() if value]
        answer = self.ec2.create_image(
            InstanceId=self.instances[0],
            Name=f"retention {called}",
            NoReboot=True,
            TagSpecifications=[{"ResourceType": kind, "Tags": marks} for kind in ("image", "snapshot")],
        )
        self.made[called] = answer["ImageId"]
        self.runs.until(f"{called} is made", lambda: self.state(called) in ("available", "failed"))

    def state(self, called: str) -> str | None:
        """Return the state of an image, or None if it was deleted."""
        found = self.ec2.describe_images(
            Owners=["self"], Filters=[{"Name": "image-id", "Values": [self.made[called]]}]
        )["Images"]
        return str(found[0]["State"]) if found else None

    def there(self) -> set[str]:
        return {called for called in self.made if self.state(called)}

    def snapshots(self) -> set[str]:
        """Return the names of the images whose snapshots exist, even if the image was deleted."""
        described = self.ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]
        return {
            called
            for called, image in self.made.items()
            for each in described
            if image in each["Description"]
        }

    def clear(self) -> None:
        for called in self.there():
            self.ec2.deregister_image(ImageId=self.made[called], DeleteAssociatedSnapshots=True)
        if self.instances:
            self.ec2.terminate_instances(InstanceIds=self.instances)


@contextmanager
def shelf_of(runs: Runs) -> Iterator[Shelf]:
    """Yield a shelf with one host of a base image."""
    shelf = Shelf(runs)
    x86 = [{"Name": "architecture", "Values": ["x86_64"]}]
    base = shelf.ec2.describe_images(Owners=["amazon"], Filters=x86)["Images"][0]
    try:
        shelf.host(base["ImageId"])
        yield shelf
    finally:
        shelf.clear()


@contextmanager
def waiting_run(runs: Runs, image: str) -> Iterator[str]:
    """Start a run from an image, which waits because all capacity pools are full."""
    runs.cloud.fault("refuse", "g5.xlarge", "*", "*")
    hardware = {"instance_types": ["g5.xlarge"], "image": image}
    run = runs.start(runs.job("waits-with-its-image", hardware=hardware, limits={"wait_minutes": 30}))
    try:
        runs.until("it is planned", lambda: run.json("plan.json"))
        yield run.id
    finally:
        run.stop(now=True)
        runs.until("it is over", lambda: run.summary)


def retire(runs: Runs, payload: dict[str, Any] | None = None) -> Execution:
    return runs.yard.start("retire", payload or {}).wait(PATIENCE).execution
