"""Install the CloudWatch agent, which publishes GPU metrics from every host."""

import json
import platform
import tempfile
from pathlib import Path
from typing import Any

from training.baking.builder import Builder
from training.baking.packages import APT, APT_ENVIRONMENT
from training.host.errors import HostTrouble
from training.host.orders import write_whole
from training.host.reporting.gpus import INTERVAL_SECONDS, NAMESPACE

SIGNED_BY = "937616F3450B7D806CBD9725D58167303B789C72"
"""The fingerprint of the key that AWS signs the agent's packages with."""
PACKAGE = (
    "https://amazoncloudwatch-agent-{region}.s3.{region}.amazonaws.com"
    "/ubuntu/{architecture}/latest/amazon-cloudwatch-agent.deb"
)
KEY = "https://amazoncloudwatch-agent.s3.amazonaws.com/assets/amazon-cloudwatch-agent.gpg"
FETCH = ("curl", "-fsS", "--retry", "5", "--max-time", "300", "-o")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def configuration() -> dict[str, Any]:
    """Return the agent's configuration: utilization and memory of all GPUs, one series each, with only the dimension
    InstanceId."""
    return {
        "agent": {"metrics_collection_interval": INTERVAL_SECONDS, "run_as_user": "root"},
        "metrics": {
            "namespace": NAMESPACE,
            "append_dimensions": {"InstanceId": "${aws:InstanceId}"},
            "aggregation_dimensions": [["InstanceId"]],
            "force_flush_interval": 10,
            "metrics_collected": {
                "nvidia_gpu": {
                    "measurement": [
                        {"name": "utilization_gpu", "unit": "Percent"},
                        {"name": "memory_used", "unit": "Megabytes"},
                    ],
                    "drop_original_metrics": ["utilization_gpu", "memory_used"],
                    "metrics_collection_interval": INTERVAL_SECONDS,
                }
            },
        },
    }


def install_agent(builder: Builder) -> None:
    """Install the agent if the base image lacks it, and configure it. It runs from now on, and after every boot."""
    if not builder.for_gpus:
        builder.log.note("an image without GPUs does not need the CloudWatch agent: it is not installed")
        return
    if not builder.paths.cloudwatch_agent.exists():
        install_package(builder)
    written = builder.paths.cloudwatch
    write_whole(written, json.dumps(configuration(), indent=2) + "\n")
    agent = str(builder.paths.cloudwatch_agent)
    configure = (agent, "-a", "fetch-config", "-m", "ec2", "-s", "-c", f"file:{written}")
    _must(builder, "configuring the CloudWatch agent", *configure)


def install_package(builder: Builder) -> None:
    """Install the package from AWS's bucket in this region, and only with AWS's signature."""
    architecture = ARCHITECTURES[platform.machine()]
    package = PACKAGE.format(region=builder.identity.region, architecture=architecture)
    with tempfile.TemporaryDirectory() as place:
        deb, signature, key = (str(Path(place) / name) for name in ("agent.deb", "agent.deb.sig", "key.gpg"))
        for url, path in ((package, deb), (package + ".sig", signature), (KEY, key)):
            _must(builder, f"fetching {url}", *FETCH, path, url)
        keys, trusted = ("gpg", "--batch", "--homedir", place), str(Path(place) / "trusted.gpg")
        _must(builder, "reading the key of the CloudWatch agent", *keys, "--import", key)
        _must(builder, f"looking for AWS's key {SIGNED_BY}", *keys, "--list-keys", SIGNED_BY)
        # The file may contain other keys, too. A package that those have signed is not AWS's.
        _must(builder, "selecting only AWS's key", *keys, "--output", trusted, "--export", SIGNED_BY)
        checking = "checking AWS's signature of the CloudWatch agent"
        _must(builder, checking, "gpgv", "--keyring", trusted, signature, deb)
        _must(builder, "installing the CloudWatch agent", *APT, "install", deb)


def _must(builder: Builder, doing: str, *command: str) -> None:
    done = builder.shell.run(command, environment=APT_ENVIRONMENT)
    if not done.is_good:
        raise HostTrouble(
            f"{doing} failed ({done.reason}): {done.last_lines()}; without the agent, idle GPUs are not detected: let "
            "the builder reach AWS's buckets, or start from a base image with amazon-cloudwatch-agent"
        )
