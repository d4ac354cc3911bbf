"""A CreateTrainingJob request of SageMaker as a job file.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html
"""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from trainyard.client.errors import NotImportable
from trainyard.client.importing.draft import Draft
from trainyard.client.importing.foreign import ITEM, LIST, MAPPING, NUMBER, TEXT, Foreign, Keys
from trainyard.client.importing.secrets import is_secretive

LAUNCHER = "SageMaker"
REQUEST = {
    "RoleArn": "hosts have a role of the yard",
    "OutputDataConfig": "results are kept in the yard's bucket",
    "CheckpointConfig": "the folder of checkpoints is kept and restored by itself",
    "VpcConfig": "the yard has its own subnets",
    "EnableNetworkIsolation": "hosts reach the network",
    "EnableInterContainerTrafficEncryption": "hosts of a gang share a security group; their traffic is not encrypted",
    "DebugHookConfig": "no debugger collects tensors; TensorBoard's events are kept",
    "DebugRuleConfigurations": "no debugger collects tensors; TensorBoard's events are kept",
    "ProfilerConfig": "patrol watches every GPU; TensorBoard's profiles are kept",
    "ProfilerRuleConfigurations": "patrol watches every GPU; TensorBoard's profiles are kept",
    "TensorBoardOutputConfig": "TensorBoard's events are kept",
    "ExperimentConfig": "`labels` can name an experiment",
    "SessionChainingConfig": "hosts have a role of the yard",
    "InfraCheckConfig": "each host checks its GPUs before the program starts",
    "RemoteDebugConfig": "the command `shell` opens a shell on a host",
}

SHAPES = {
    **dict.fromkeys(("AlgorithmSpecification", "HyperParameters", "Environment", "ResourceConfig"), MAPPING),
    **dict.fromkeys(("StoppingCondition", "RetryStrategy"), MAPPING),
    **dict.fromkeys(("TrainingJobName", "ResourceConfig.InstanceType"), TEXT),
    **dict.fromkeys(("InputDataConfig", "Tags", "ResourceConfig.InstanceGroups"), LIST),
    **dict.fromkeys(("AlgorithmSpecification.ContainerEntrypoint",), LIST),
    **dict.fromkeys(("AlgorithmSpecification.ContainerArguments",), LIST),
    **dict.fromkeys(("InputDataConfig.*", "Tags.*", "ResourceConfig.InstanceGroups.*"), ITEM),
    **dict.fromkeys(("InputDataConfig.*.DataSource", "InputDataConfig.*.DataSource.S3DataSource"), ITEM),
    **dict.fromkeys(
        ("InputDataConfig.*.ChannelName", "InputDataConfig.*.DataSource.S3DataSource.S3Uri"), TEXT
    ),
    **dict.fromkeys(("ResourceConfig.InstanceCount", "ResourceConfig.VolumeSizeInGB"), NUMBER),
    **dict.fromkeys(("StoppingCondition.*", "RetryStrategy.*"), NUMBER),
}
"""The forms of a request's values."""


def recognizes(foreign: Foreign) -> Keys | None:
    """Return the path of the first key of a CreateTrainingJob request, or None."""
    return foreign.first("TrainingJobName", "AlgorithmSpecification")


def convert(foreign: Foreign, stem: str) -> Draft:
    """Convert a CreateTrainingJob request. Raise NotImportable if its program is inside a container image."""
    foreign.leave_misshapen(SHAPES)
    draft = Draft(foreign, LAUNCHER)
    draft.name(foreign.take("TrainingJobName"), stem)
    _request_program(draft)
    for name, value in (foreign.take("Environment") or {}).items():
        draft.variable(name, value, "Environment", name)
    at = "ResourceConfig"
    types, count = foreign.take(at, "InstanceType"), foreign.take(at, "InstanceCount")
    if groups := foreign.take(at, "InstanceGroups"):
        types, count = groups[0].get("InstanceType"), sum(group.get("InstanceCount", 1) for group in groups)
        if len(groups) > 1:
            foreign.note(at, "InstanceGroups", reason="all hosts have the instance type of the first group")
    add_hosts(draft, types, count, (at, "InstanceType"))
    if size := foreign.take(at, "VolumeSizeInGB"):
        draft.disk(size, at, "VolumeSizeInGB")
    foreign.leave(at, "VolumeKmsKeyId", reason="disks are encrypted with the yard's key")
    foreign.leave(
        at, "KeepAlivePeriodInSeconds", reason="the job's section `pool` keeps hosts for the next run"
    )
    draft.put("spot" if foreign.take("EnableManagedSpotTraining") else "on_demand", "hardware", "market")
    longest = foreign.take("StoppingCondition", "MaxRuntimeInSeconds")
    if longest:
        draft.hours(longest / 3600, "StoppingCondition", "MaxRuntimeInSeconds")
    if waits := foreign.take("StoppingCondition", "MaxWaitTimeInSeconds"):
        draft.put(min(1440.0, max(1.0, (waits - (longest or 0)) / 60)), "limits", "wait_minutes")
    if retries := foreign.take("RetryStrategy", "MaximumRetryAttempts"):
        draft.put(min(20, retries), "limits", "restarts")
    _request_channels(draft)
    if isinstance(tags := foreign.take("Tags"), list):
        draft.labels({str(tag.get("Key")): tag.get("Value") for tag in tags}, "Tags")
    for name, reason in REQUEST.items():
        foreign.leave(name, reason=reason)
    return draft


def _request_program(draft: Draft) -> None:
    foreign = draft.origin
    at = "AlgorithmSpecification"
    given = {name: unquote(value) for name, value in (foreign.take("HyperParameters") or {}).items()}
    own = {name: value for name, value in given.items() if name.startswith("sagemaker_")}
    entry = own.get("sagemaker_program")
    command = [
        *(foreign.take(at, "ContainerEntrypoint") or []),
        *(foreign.take(at, "ContainerArguments") or []),
    ]
    if entry:
        add_program(draft, str(entry), own.get("sagemaker_submit_directory"))
    elif command:
        draft.command(command, at)
        draft.put("./", "program", "source")
    else:
        raise NotImportable(
            "the request names no program: it is inside the container image",
            "add sagemaker_program to HyperParameters",
        )
    for name in own.keys() - {"sagemaker_program", "sagemaker_submit_directory"}:
        foreign.note("HyperParameters", name, reason="a setting of SageMaker's container")
    add_arguments(draft, {name: value for name, value in given.items() if name not in own}, "HyperParameters")
    for key in ("TrainingImage", "AlgorithmName"):
        foreign.leave(
            at,
            key,
            reason="hosts start from an image of the yard, baked from a recipe",
        )
    foreign.leave(at, "TrainingInputMode", reason="data are copied to each host before the program starts")
    foreign.leave(at, "TrainingImageConfig", reason="hosts pull no container image")
    foreign.leave(
        at, "EnableSageMakerMetricsTimeSeries", reason="step and loss are read from what the program prints"
    )
    foreign.leave(
        at, "MetricDefinitions", reason="write one pattern with the groups step and loss as program.progress"
    )


def unquote(value: Any) -> Any:
    """Return a hyperparameter without the JSON quotes that SageMaker's SDK adds."""
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value


def _request_channels(draft: Draft) -> None:
    for number, channel in enumerate(draft.origin.take("InputDataConfig") or []):
        path = ("InputDataConfig", number)
        source = channel.get("DataSource", {})
        if uri := source.get("S3DataSource", {}).get("S3Uri"):
            add_channel(draft, channel.get("ChannelName") or "training", uri, *path)
            if source["S3DataSource"].get("S3DataDistributionType") == "ShardedByS3Key":
                draft.origin.note(
                    *path, reason="each host had its share of the files: write `sharding: file`"
                )
        else:
            draft.origin.note(
                *path, reason="hosts read S3 only; copy its files to s3://BUCKET/data/ and add it to `data`"
            )


def add_program(draft: Draft, entry: str, folder: Any) -> None:
    script = PurePosixPath(entry)
    if folder and str(folder).startswith("s3://"):
        draft.put(str(folder), "program", "source")
    elif folder:
        draft.source(folder, "source_dir")
    else:
        draft.source(str(script.parent), "entry_point")
        script = PurePosixPath(script.name)
    words = entry.split()
    if len(words) > 1:
        draft.put(words, "program", "command")
    else:
        draft.put(["bash" if script.suffix == ".sh" else "python", str(script)], "program", "command")


def add_arguments(draft: Draft, given: Mapping[str, Any], *path: str) -> None:
    """Pass hyperparameters as SageMaker's containers do, each as `--name value`."""
    for name, value in given.items():
        if isinstance(value, bool):
            value = str(value)
        if isinstance(value, dict | list):
            value = json.dumps(value)
        if value is None:
            draft.origin.note(*path, name, reason="it has no value")
        elif is_secretive(name):
            draft.secret(name.replace("-", "_"), *path, name)
        else:
            draft.put(value, "program", "args", name)
            if isinstance(value, str) and value.startswith("/opt/ml/"):
                draft.origin.note(
                    *path,
                    name,
                    reason=f"{value} is a path of SageMaker's; write ${{model}} or ${{data.NAME}}",
                )


def add_hosts(draft: Draft, types: Any, count: Any, path: tuple[str, ...]) -> None:
    if types:
        draft.types([str(types)] if isinstance(types, str) else [str(each) for each in types], *path)
    if count:
        draft.hosts(count, "instance_count")


def add_channel(draft: Draft, name: str, uri: str, *path: str | int) -> None:
    entry = draft.data(uri, name, *path)
    if entry:
        draft.put(
            f"${{data.{entry}}}", "program", "environment", f"SM_CHANNEL_{name.upper().replace('-', '_')}"
        )
    draft.put("${model}", "program", "environment", "SM_MODEL_DIR")
