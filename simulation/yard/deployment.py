"""Deploy the templates: every resource, AWS's images, and the first image of the yard."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from simulation.aws.endpoint.api import ACCOUNT
from simulation.aws.iam import Iam
from simulation.template import YardTemplate
from trainyard.protocol.tags import Tag

if TYPE_CHECKING:
    from simulation.yard import Yard


def deploy(yard: Yard) -> str:
    """Deploy the yard; return the image that its hosts start from."""
    template = yard.template
    for machine in template.machines.values():
        yard.stepfunctions.create(machine)
    for each in template.launch_templates.values():
        yard.ec2.add_template(each.id, each.name, each.data)
    for subnet in template.subnets.values():
        yard.ec2.add_subnet(subnet.id, subnet.zone, cidr=subnet.cidr, vpc=subnet.vpc)
    for profile, role in template.instance_profiles.items():
        yard.ec2.add_profile(profile, role)
    for document in template.documents.values():
        if document.kind == "Command":  # users' session documents do not matter here
            yard.ssm.add_document(document.name, document.content)
    yard.ec2.add_base_images()
    yard.ec2.may = yard.iam.may
    yard.s3.create_bucket(template.bucket.name)
    yard.dynamodb.create_table(template.table.name)
    yard.notifications.create_topic(template.topic.arn, subscribers=template.subscriptions)
    for name, value in template.parameters.items():
        yard.ssm.publish(name, value)
    for image_id, config in yard.ec2.catalogue.settings.images.items():
        if config.parameter:
            yard.ssm.publish(config.parameter, image_id)
    _publish_software(yard)
    yard.events.begin_schedules(
        {rule.name: 30.0 for rule in template.rules if rule.schedule == "rate(1 minute)"}
        | {rule.name: 86_000.0 for rule in template.rules if rule.schedule == "rate(1 day)"}
    )
    return _bake_at_once(yard)


def _publish_software(yard: Yard) -> None:
    """Publish the software archive that bakes fetch, as `cdk deploy` does in its asset bucket."""
    for config in yard.template.functions.values():
        if "SOFTWARE_URI" in config.environment:
            bucket, _, key = config.environment["SOFTWARE_URI"].removeprefix("s3://").partition("/")
            yard.s3.create_bucket(bucket)
            yard.s3.write(bucket, key, b"software")


def _bake_at_once(yard: Yard) -> str:
    image = add_baked_image(yard, "ami-0123456789abcdef0", "gpu", days=0)
    for name in yard.template.parameters:
        if name.endswith("/image"):
            yard.ssm.publish(name, image)
    return image


def add_baked_image(yard: Yard, image_id: str, family: str, *, days: float) -> str:
    """Add an image that was baked this many days ago. Return its id."""
    tags = {
        Tag.YARD: yard.name,
        Tag.RUN: f"bake-{image_id[-4:]}",
        Tag.KIND: "baked",
        Tag.FAMILY: family,
        Tag.PARENT: "ami-base",
        Tag.RECIPE: "0" * 16,
        Tag.TESTS: "8 passed",
        Tag.TENSORFLOW: "2.21.0",
        Tag.DRIVER: "none",
        Tag.CUDA: "none",
        "Name": f"{family} {image_id[-4:]}",
    }
    image = yard.ec2.add_image(image_id, tags["Name"], owner=ACCOUNT, gib=100, tags=tags)
    image.created = yard.world.now - timedelta(days=days)
    return image_id


_IAM: dict[int, Iam] = {}
"""By template, so that all worlds of this process share the cache of verdicts."""


def cached_iam(template: YardTemplate) -> Iam:
    if id(template) not in _IAM:
        _IAM[id(template)] = Iam(
            {arn: role.policies for arn, role in template.roles.items()},
            trusts={arn: role.trust for arn, role in template.roles.items()},
            resources=template.resource_policies,
        )
    return _IAM[id(template)]
