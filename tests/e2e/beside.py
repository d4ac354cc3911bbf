"""Deploy a second yard in the same account with a copied image."""

import subprocess

from scripts.local_yard import ROOT, client_environment
from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs
from tests.e2e.shelf import Shelf
from trainyard.client import Yard


def deployed(runs: Runs, name: str, *arguments: str) -> Runs:
    """Run `scripts/deploy` with these arguments, without a bake."""
    state = runs.cloud.state
    settings = {
        "ASSEMBLY": str(state / f"{name}.out"),
        "OUTPUTS": str(state / f"{name}.json"),
        "CI": "true",
    }
    done = subprocess.run(
        [str(ROOT / "scripts" / "deploy"), *arguments, "-c", "bake_on_deploy=false"],
        cwd=ROOT,
        env=client_environment(runs.cloud.environment()) | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if (
        "--app" not in arguments
    ):  # an app of its own names its yard itself, which scripts/deploy does not know
        assert "image bake examples/images/gpu.yaml" in done.stdout.splitlines()[-1], done.stdout
    yard = Yard.find(name, session=runs.cloud.session())
    yard.session.client("ssm").put_parameter(
        Name=f"/{name.lower()}/image", Value=_image(runs, name.lower()), Type="String", Overwrite=True
    )
    return Runs(runs.cloud, yard)


def _image(runs: Runs, yard: str) -> str:
    """Copy the current image of the first yard to this one, because a bake takes minutes."""
    ec2, ssm = (runs.yard.session.client(service) for service in ("ec2", "ssm"))
    current = ssm.get_parameter(Name="/trainyard/image")["Parameter"]["Value"]
    host = Shelf(runs).host(current)
    (image,) = ec2.describe_images(ImageIds=[current])["Images"]
    tags = [tag | {"Value": yard} if tag["Key"] == "trainyard:yard" else tag for tag in image["Tags"]]
    made = ec2.create_image(
        InstanceId=host,
        Name=yard,
        TagSpecifications=[{"ResourceType": kind, "Tags": tags} for kind in ("image", "snapshot")],
    )["ImageId"]
    ec2.get_waiter("image_available").wait(
        ImageIds=[made], WaiterConfig={"Delay": 1, "MaxAttempts": int(PATIENCE)}
    )
    ec2.terminate_instances(InstanceIds=[host])
    return str(made)
