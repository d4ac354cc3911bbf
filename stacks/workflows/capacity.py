"""Plan and Launch, as each workflow has them that asks EC2 for hosts of its own."""

from collections.abc import Mapping
from typing import Any

from stacks.constructs import permissions
from stacks.constructs.function import Function
from stacks.constructs.hosts import HostTemplates
from stacks.constructs.permissions import kms
from stacks.constructs.permissions.launches import launch_hosts, plan_launches
from stacks.constructs.workflow import Workflow
from stacks.network import NetworkStack
from trainyard.protocol import keys


def plan(workflow: Workflow, network: NetworkStack) -> Function:
    function = workflow.function(
        "plan",
        module="train.plan",
        IMAGE_PARAMETER=workflow.settings.image_parameter,
        SUBNET_IDS=network.subnet_ids,
        VOLUME_INITIALIZATION_RATE=str(workflow.settings.volume_initialization_rate),
    )
    role = function.its_role
    plan_launches(role)
    permissions.write_objects(role, workflow.bucket, keys.RUNS)
    permissions.use_ledger(role, workflow.table, "GetItem", "Query", "PutItem", "UpdateItem")
    return function


def launch(
    workflow: Workflow,
    network: NetworkStack,
    templates: HostTemplates,
    *,
    images: Mapping[str, Any] | None = None,
) -> Function:
    """`images` is the condition that an image meets; None: hosts start from any."""
    function = workflow.function(
        "launch",
        module="train.launch",
        minutes=3,
        LAUNCH_TEMPLATES=templates.setting,
        KMS_KEY=workflow.settings.kms_key,
    )
    role = function.its_role
    launch_hosts(
        role,
        template_ids=templates.ids,
        network=network.launch_arns,
        pass_role=templates.role,
        yard=workflow.yard,
        images=images,
    )
    kms.use_for_volumes(role, workflow.settings.kms_key)
    permissions.anywhere(role, "ec2:DescribeInstances")
    permissions.use_ledger(role, workflow.table, "Query", "PutItem", "UpdateItem")
    return function
