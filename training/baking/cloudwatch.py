"""Install the CloudWatch agent, which publishes GPU metrics from every host."""

import json
import platform
from typing import Any

from training.baking.builder import Builder
from training.baking.signed import SignedPackage, install_signed, must
from training.host.orders import write_whole
from training.host.reporting.gpus import INTERVAL_SECONDS, NAMESPACE

SIGNED_BY = "937616F3450B7D806CBD9725D58167303B789C72"
"""The fingerprint of the key that AWS signs the agent's packages with."""
PACKAGE = (
    "https://amazoncloudwatch-agent-{region}.s3.{region}.amazonaws.com"
    "/ubuntu/{architecture}/latest/amazon-cloudwatch-agent.deb"
)
KEY = "https://amazoncloudwatch-agent.s3.amazonaws.com/assets/amazon-cloudwatch-agent.gpg"
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
    agents_package = package(builder.identity.region)
    if not builder.paths.cloudwatch_agent.exists():
        install_signed(builder, agents_package)
    written = builder.paths.cloudwatch
    write_whole(written, json.dumps(configuration(), indent=2) + "\n")
    agent = str(builder.paths.cloudwatch_agent)
    configure = (agent, "-a", "fetch-config", "-m", "ec2", "-s", "-c", f"file:{written}")
    must(builder, agents_package, "configuring the CloudWatch agent", *configure)


def package(region: str) -> SignedPackage:
    """Return the agent's package in AWS's bucket of this region."""
    url = PACKAGE.format(region=region, architecture=ARCHITECTURES[platform.machine()])
    return SignedPackage(
        called="the CloudWatch agent",
        url=url,
        signature=f"{url}.sig",
        key=KEY,
        fingerprint=SIGNED_BY,
        consequence="without the agent, idle GPUs are not detected: let the builder reach AWS's buckets, or start from "
        "a base image with amazon-cloudwatch-agent",
    )
