"""A job definition of AWS Batch as a job file.

https://docs.aws.amazon.com/batch/latest/APIReference/API_RegisterJobDefinition.html
"""

import re
from collections.abc import Mapping
from typing import Any

from trainyard.client.errors import NotImportable
from trainyard.client.importing.container import put_image
from trainyard.client.importing.draft import AS_WRITTEN, Draft
from trainyard.client.importing.foreign import ITEM, LIST, MAPPING, NUMBER, Foreign, Keys
from trainyard.core.model.gpus import Wanted
from trainyard.core.model.program_fields import MOST_ARG_CHARACTERS

LAUNCHER = "AWS Batch"
CONTAINER = {
    "memory": "hardware.instance_types decides the memory of a host",
    "jobRoleArn": "programs have the run's role",
    "executionRoleArn": "hosts have a role of the yard",
    "logConfiguration": "the run's log holds what the program prints",
    "privileged": "programs have no rights of root on their hosts",
    "readonlyRootFilesystem": "a program may write to all of its image; changes last for one attempt",
    "user": "programs run as the USER of their image",
    "ulimits": "programs may open 65,536 files",
    "networkConfiguration": "the yard has its own subnets",
    "fargatePlatformConfiguration": "hosts are EC2 instances",
    "runtimePlatform": "hosts are x86_64",
    "ephemeralStorage": "write hardware.disk_gib",
    "repositoryCredentials": "a secret of the yard has the login (program.container.login)",
    "volumes": "hosts mount no volumes; data come from S3, results go there by themselves",
    "mountPoints": "hosts mount no volumes; data come from S3, results go there by themselves",
    "linuxParameters": "shared memory is half of a host's memory, and programs see all devices of the host",
    "essential": "a job has one program",
    "name": "a job has one program",
    "dependsOn": "a job has one program",
    "enableExecuteCommand": "the command `shell` opens a shell on a host",
}
TOP = {
    "type": "every run has its own hosts",
    "propagateTags": "tags of a run are on all of its resources",
    "schedulingPriority": "write priority, from 0 to 100, for the order of waiting runs",
    "platformCapabilities": "hosts are EC2 instances",
    "consumableResourceProperties": "a yard has no such resources",
    "jobDefinitionArn": "the definition stays in AWS Batch",
    "revision": "the definition stays in AWS Batch",
    "status": "the definition stays in AWS Batch",
    "containerOrchestrationType": "hosts pull images by themselves",
    "jobQueue": "a yard has one queue; write priority, from 0 to 100, for the order of waiting runs",
}
VARIABLES = {
    "AWS_BATCH_JOB_NODE_INDEX": "$NODE_RANK",
    "AWS_BATCH_JOB_NUM_NODES": "$NNODES",
    "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "$MASTER_ADDR",
    "AWS_BATCH_JOB_ID": "$TRAINYARD_RUN",
    "AWS_BATCH_JOB_ATTEMPT": "$TRAINYARD_ATTEMPT",
}


def unwrap(foreign: Foreign) -> Foreign:
    """Return the only definition in an answer of DescribeJobDefinitions, or any other file unchanged."""
    found = foreign.look("jobDefinitions")
    if not isinstance(found, list) or not found:
        return foreign
    if len(found) > 1:
        raise NotImportable(f"the file holds {len(found)} job definitions", "leave one of them in the file")
    below = {path[2:]: line for path, line in foreign.lines.items() if path[:2] == ("jobDefinitions", 0)}
    return Foreign(found[0], below)


CONTAINERS = (
    "containerProperties",
    "nodeProperties.nodeRangeProperties.*.container",
    "ecsProperties.taskProperties.*.containers.*",
)
"""The paths of containers in a definition."""
LISTS = ("environment", "secrets", "resourceRequirements")
SHAPES = {
    **dict.fromkeys(("containerProperties", "nodeProperties", "ecsProperties"), MAPPING),
    **dict.fromkeys(("parameters", "timeout", "retryStrategy"), MAPPING),
    **dict.fromkeys(("nodeProperties.nodeRangeProperties", "ecsProperties.taskProperties"), LIST),
    **dict.fromkeys(("nodeProperties.nodeRangeProperties.*", "ecsProperties.taskProperties.*"), ITEM),
    "ecsProperties.taskProperties.*.containers": LIST,
    **dict.fromkeys(CONTAINERS, ITEM),
    **{f"{at}.command": LIST for at in CONTAINERS},
    **{f"{at}.{key}": LIST for at in CONTAINERS for key in LISTS},
    **{f"{at}.{key}.*": ITEM for at in CONTAINERS for key in LISTS},
    **{f"{at}.vcpus": NUMBER for at in CONTAINERS},
    **{f"{at}.resourceRequirements.*.value": NUMBER for at in CONTAINERS},
    **dict.fromkeys(
        ("timeout.attemptDurationSeconds", "retryStrategy.attempts", "nodeProperties.numNodes"), NUMBER
    ),
}
"""The forms of a definition's values."""


def recognizes(foreign: Foreign) -> Keys | None:
    """Return the path of the first key of a job definition, or None."""
    own = ("jobDefinitionName", "containerProperties", "nodeProperties", "ecsProperties", "eksProperties")
    return unwrap(foreign).first(*own)


def convert(foreign: Foreign, stem: str) -> Draft:
    """Convert a job definition. Raise NotImportable for a definition without a command, or for EKS."""
    foreign.leave_misshapen(SHAPES)
    draft = Draft(foreign, LAUNCHER)
    draft.name(foreign.take("jobDefinitionName"), stem)
    container = _container(draft)
    parameters = foreign.take("parameters") or {}
    has_login = bool(foreign.look(*container, "repositoryCredentials"))
    image = foreign.take(*container, "image")
    is_contained = put_image(draft, image, None, *container, "image", has_login=has_login)
    _command(draft, container, parameters, is_contained=is_contained)
    for number, each in enumerate(foreign.take(*container, "environment") or []):
        draft.variable(str(each.get("name")), each.get("value"), *container, "environment", number)
    for number, each in enumerate(foreign.take(*container, "secrets") or []):
        draft.secret(str(each.get("name")), *container, "secrets", number)
    draft.provide(VARIABLES)
    _hardware(draft, container)
    if seconds := foreign.take("timeout", "attemptDurationSeconds"):
        draft.hours(seconds / 3600, "timeout")
    if attempts := foreign.take("retryStrategy", "attempts"):
        draft.put(min(20, attempts - 1), "limits", "restarts")
    foreign.leave("retryStrategy", reason="an error of the program itself ends a run; interruptions never do")
    if isinstance(tags := foreign.take("tags"), dict):
        draft.labels(tags, "tags")
    for name, reason in CONTAINER.items():
        foreign.leave(*container, name, reason=reason)
    for name, reason in TOP.items():
        foreign.leave(name, reason=reason)
    draft.put("on_demand", "hardware", "market")
    if not is_contained:
        draft.put("./", "program", "source")
    return draft


def _container(draft: Draft) -> tuple[str | int, ...]:
    """Return the path of the container. Set the number of the job's hosts to the number of nodes in the definition."""
    foreign = draft.origin
    if foreign.look("eksProperties"):
        raise NotImportable(
            "the definition describes pods of EKS", "import the container's command into a job file by hand"
        )
    if foreign.look("nodeProperties"):
        draft.hosts(foreign.take("nodeProperties", "numNodes"), "nodeProperties", "numNodes")
        foreign.take("nodeProperties", "mainNode")
        ranges = foreign.look("nodeProperties", "nodeRangeProperties") or []
        foreign.take("nodeProperties", "nodeRangeProperties", 0, "targetNodes")
        for number in range(1, len(ranges)):
            foreign.leave(
                "nodeProperties",
                "nodeRangeProperties",
                number,
                reason="all hosts run the program of the first node range",
            )
        return ("nodeProperties", "nodeRangeProperties", 0, "container")
    if foreign.look("ecsProperties"):
        for number in range(1, len(foreign.look("ecsProperties", "taskProperties", 0, "containers") or [])):
            foreign.leave(
                "ecsProperties",
                "taskProperties",
                0,
                "containers",
                number,
                reason="a job has one program: the first container's",
            )
        return ("ecsProperties", "taskProperties", 0, "containers", 0)
    return ("containerProperties",)


def _command(
    draft: Draft, container: tuple[str | int, ...], parameters: Mapping[str, Any], *, is_contained: bool
) -> None:
    """Set the program's words. As in AWS Batch, they follow the ENTRYPOINT of the image, and replace its CMD."""
    words = [_fill_in(str(word), parameters) for word in draft.origin.take(*container, "command") or []]
    if not words:
        if is_contained:
            return
        raise NotImportable("the definition has neither an `image` nor a `command`", "add one of them")
    missing = [word for word in words if word.startswith("Ref::")]
    for word in missing:
        draft.origin.note(*container, "command", reason=f"{word} is given at submission; write its value")
    if (
        len(words) == 3
        and words[0].rpartition("/")[2] in ("sh", "bash")
        and words[1].startswith("-")
        and "c" in words[1]
        and not (is_contained and _needs_no_shell(words[2]))
    ):
        draft.shell(AS_WRITTEN)
        draft.shell(words[2], *container, "command", 2)
    else:
        draft.command([word.replace("${", "$${") for word in words], *container, "command")


def _needs_no_shell(line: str) -> bool:
    """Return True for a line that the image's own shell can read without variables of AWS Batch."""
    return (
        "\n" not in line and len(line) <= MOST_ARG_CHARACTERS and not any(name in line for name in VARIABLES)
    )


def _fill_in(word: str, parameters: Mapping[str, Any]) -> str:
    found = re.fullmatch(r"Ref::([\w-]+)", word)
    return str(parameters[found[1]]) if found and found[1] in parameters else word


def _hardware(draft: Draft, container: tuple[str | int, ...]) -> None:
    foreign = draft.origin
    asked = {
        str(each.get("type")): each.get("value")
        for each in foreign.take(*container, "resourceRequirements") or []
    }
    vcpus = int(float(asked.get("VCPU") or foreign.look(*container, "vcpus") or 0))
    foreign.take(*container, "vcpus")
    types = foreign.take(*container, "instanceType") or foreign.take(
        "nodeProperties", "nodeRangeProperties", 0, "instanceTypes"
    )
    if types:
        draft.types([types] if isinstance(types, str) else types, *container, "instanceType")
    elif count := int(asked.get("GPU") or 0):
        draft.gpus([Wanted((), count, vcpus=vcpus)], *container, "resourceRequirements")
        foreign.note(
            *container,
            "resourceRequirements",
            reason="any kind of GPU fits; hardware.instance_types can name others",
        )
    else:
        foreign.note(*container, reason="the definition asks for no GPU; the job runs on processors")
        draft.put(["m7i.2xlarge", "m6i.2xlarge"], "hardware", "instance_types")
    if "MEMORY" in asked:
        foreign.note(*container, "resourceRequirements", reason=CONTAINER["memory"])
