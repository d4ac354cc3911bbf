"""The call of an estimator of SageMaker's SDK, in a Python file, as a job file.

https://sagemaker.readthedocs.io/en/stable/api/training/estimators.html
"""

import ast
import json
from collections.abc import Mapping
from typing import Any

from trainyard.client.errors import NotImportable
from trainyard.client.importing import sagemaker_tuning
from trainyard.client.importing.calls import (
    UNKNOWN,
    arguments_of,
    assigned,
    call_name,
    leaves_of,
    lines_of,
    value_of,
)
from trainyard.client.importing.draft import Draft
from trainyard.client.importing.foreign import (
    ITEM,
    LIST,
    MAPPING,
    NUMBER,
    TEXT,
    Foreign,
    Keys,
    Shape,
)
from trainyard.client.importing.sagemaker import LAUNCHER, add_arguments, add_channel, add_hosts, add_program
from trainyard.values.quantities import format_count

ESTIMATORS = (
    "Estimator",
    "TensorFlow",
    "PyTorch",
    "HuggingFace",
    "MXNet",
    "Chainer",
    "SKLearn",
    "XGBoost",
    "ModelTrainer",
)
KEYWORDS = {
    "role": "hosts have a role of the yard",
    "sagemaker_session": "the yard has its own session",
    "framework_version": "the yard's image has its own version (hardware.image chooses another)",
    "py_version": "the yard's image has its own Python",
    "transformers_version": "put packages into program.requirements",
    "pytorch_version": "put packages into program.requirements",
    "tensorflow_version": "the yard's image has its own version (hardware.image chooses another)",
    "image_uri": "hosts start from an image of the yard, baked from a recipe",
    "training_image": "hosts start from an image of the yard, baked from a recipe",
    "output_path": "results are kept in the yard's bucket",
    "output_data_config": "results are kept in the yard's bucket",
    "code_location": "the source is kept in the yard's bucket",
    "checkpoint_s3_uri": "the folder of checkpoints is kept and restored by itself",
    "checkpoint_config": "the folder of checkpoints is kept and restored by itself",
    "checkpoint_local_path": "the program finds the folder in TRAINYARD_CHECKPOINTS",
    "subnets": "the yard has its own subnets",
    "security_group_ids": "the yard has its own security group",
    "networking": "the yard has its own subnets",
    "debugger_hook_config": "no debugger collects tensors; TensorBoard's events are kept",
    "profiler_config": "patrol watches every GPU; TensorBoard's profiles are kept",
    "rules": "no debugger collects tensors; TensorBoard's events are kept",
    "disable_profiler": "SageMaker's profiler does not run",
    "container_log_level": "the run's log holds everything that the program prints",
    "input_mode": "data are copied to each host before the program starts",
    "keep_alive_period_in_seconds": "the job's section `pool` keeps hosts for the next run",
    "model_dir": "the program finds the folder in TRAINYARD_MODEL",
    "enable_sagemaker_metrics": "step and loss are read from what the program prints",
    "script_mode": "every program is a script",
    "dependencies": "put further folders into program.source",
}

SHAPES = {
    **dict.fromkeys(
        ("hyperparameters", "environment", "compute", "source_code", "stopping_condition"), MAPPING
    ),
    **dict.fromkeys(("entry_point", "source_dir", "base_job_name", "source_code.*"), TEXT),
    **dict.fromkeys(("instance_count", "volume_size", "max_run", "max_wait", "max_retry_attempts"), NUMBER),
    **dict.fromkeys(("compute.instance_count", "compute.volume_size_in_gb", "stopping_condition.*"), NUMBER),
    **dict.fromkeys(
        ("inputs", "input_data_config"), Shape((str, dict, list), "an address, a mapping or a list")
    ),
    "tags": LIST,
    "tags.*": ITEM,
}
"""The forms of an estimator's keywords."""

REQUESTS = ("create_training_job", "create_hyper_parameter_tuning_job")
"""The calls of boto3 whose keywords are a request."""
OLD_NAMES = {"image_name": "image_uri", "train_instance_count": "instance_count"}
"""Keywords of version 1 of the SDK. Its other old keywords began with `train_`."""


def read_estimator(tree: ast.Module, name: str) -> Foreign | None:
    """Return the keywords of the estimator in a Python file and of its call of `fit`, or None without an estimator.

    The keywords of a call of REQUESTS are returned as a request (sagemaker.py, sagemaker_tuning.py).
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [call for call in calls if call_name(call).endswith(ESTIMATORS) and call.keywords]
    constants = dict(assigned(tree))
    if len(made) > 1:
        where = ", ".join(str(call.lineno) for call in made)
        raise NotImportable(
            f"{name} makes {format_count(len(made), 'estimator')} (lines {where})",
            "leave one of them in the file",
        )
    if not made:
        requests = [call for call in calls if call_name(call) in REQUESTS and call.keywords]
        return Foreign(*_keywords(requests[0], constants)) if requests else None
    values, lines = _keywords(made[0], constants)
    for call in calls:
        _add_call(call, constants, values, lines)
    sagemaker_tuning.add_tuner(calls, constants, values, lines)
    return Foreign({**values, "estimator": call_name(made[0])}, lines)


def _add_call(
    call: ast.Call,
    constants: Mapping[str, ast.expr],
    values: dict[str, Any],
    lines: dict[Keys, int],
) -> None:
    """Add the values that later calls pass to the estimator: hyperparameters, and the inputs of `fit` or `train`."""
    match call_name(call):
        case "set_hyperparameters":
            given, _ = _keywords(call, constants)
            values["hyperparameters"] = {**values.get("hyperparameters", {}), **given}
        case "fit" | "train":
            named = (each.value for each in call.keywords if each.arg in ("inputs", "input_data_config"))
            for each in (*call.args[:1], *named):
                values["inputs"] = value_of(each, constants)
                lines.update(lines_of(("inputs",), each))


def _keywords(call: ast.Call, constants: Mapping[str, ast.expr]) -> tuple[dict[str, Any], dict[Keys, int]]:
    named = [(_name(name), each) for name, each in arguments_of(call, constants)]
    values = {name: value_of(each, constants) for name, each in named}
    return values, {path: line for name, each in named for path, line in lines_of((name,), each)}


def _name(keyword: str) -> str:
    """Return the name of a keyword in version 2 of the SDK."""
    return OLD_NAMES.get(keyword, keyword.removeprefix("train_"))


def convert_call(foreign: Foreign, stem: str) -> Draft:
    """Convert an estimator's keywords, as far as they are literal. Raise NotImportable without an entry point."""
    draft = Draft(foreign, LAUNCHER)
    _leave_unknown(foreign)
    foreign.leave_misshapen(SHAPES)
    foreign.take("estimator")
    draft.name(foreign.take("base_job_name"), foreign.take("job_name"), stem)
    code = ("source_code",) if foreign.look("source_code") else ()
    entry = foreign.take(*code, "entry_script" if code else "entry_point") or foreign.take(*code, "command")
    if not entry:
        raise NotImportable(
            "the estimator has no entry point: its program is inside a container", "name an entry point"
        )
    add_program(draft, str(entry), foreign.take(*code, "source_dir"))
    if requirements := foreign.take(*code, "requirements"):
        draft.put(str(requirements), "program", "requirements")
    add_arguments(draft, foreign.take("hyperparameters") or {}, "hyperparameters")
    for name, value in (foreign.take("environment") or {}).items():
        draft.variable(name, value, "environment")
    compute = ("compute",) if foreign.look("compute") else ()
    add_hosts(
        draft,
        foreign.take(*compute, "instance_type"),
        foreign.take(*compute, "instance_count"),
        (*compute, "instance_type"),
    )
    if size := foreign.take(*compute, "volume_size") or foreign.take(*compute, "volume_size_in_gb"):
        draft.disk(size, *compute, "volume_size")
    spot = foreign.take("use_spot_instances") or foreign.take(*compute, "enable_managed_spot_training")
    draft.put("spot" if spot else "on_demand", "hardware", "market")
    _times(draft, foreign)
    _distribution(draft)
    _inputs(draft, foreign.take("inputs") or foreign.take("input_data_config"))
    if isinstance(tags := foreign.take("tags"), list):
        draft.labels(
            {str(tag.get("Key", tag.get("key"))): tag.get("Value", tag.get("value")) for tag in tags}, "tags"
        )
    if foreign.take("metric_definitions"):
        foreign.note(
            "metric_definitions", reason="write one pattern with the groups step and loss as program.progress"
        )
    if retries := foreign.take("max_retry_attempts"):
        draft.put(min(20, int(retries)), "limits", "restarts")
    for name, reason in KEYWORDS.items():
        foreign.leave(name, reason=reason)
    if foreign.look("tuner"):
        sagemaker_tuning.convert_tuner(draft)
    return draft


def _leave_unknown(foreign: Foreign) -> None:
    """Report and remove each keyword whose value is only known when the file runs."""
    for path, value in [*leaves_of(foreign.values)]:
        if isinstance(value, str) and value.startswith(UNKNOWN) and path[0] not in (*KEYWORDS, "tuner"):
            foreign.note(
                *path, reason=f"`{value[1:][:60]}` is not literal; write its value into the job file"
            )
            holder = foreign.look(*path[:-1]) if path[:-1] else foreign.values
            del holder[path[-1]]


def _times(draft: Draft, foreign: Foreign) -> None:
    stopping = foreign.mapping("stopping_condition")
    longest = foreign.take("max_run") or foreign.take("stopping_condition", "max_runtime_in_seconds")
    if isinstance(longest, int | float):
        draft.hours(longest / 3600, "max_run")
    waits = foreign.take("max_wait") or (
        foreign.take("stopping_condition", "max_wait_time_in_seconds") if stopping else None
    )
    if isinstance(waits, int | float):
        draft.put(min(1440.0, max(1.0, (waits - (longest or 0)) / 60)), "limits", "wait_minutes")


def _distribution(draft: Draft) -> None:
    match draft.origin.take("distribution"):
        case {"parameter_server": _}:
            cluster = draft.job.get("cluster", {})
            workers = cluster.get("workers", 1)
            draft.put(
                {"strategy": "parameter_server", "workers": workers, "parameter_servers": workers}, "cluster"
            )
        case None:
            pass
        case other:
            draft.origin.note(
                "distribution",
                reason=f"{json.dumps(other)[:80]}: cluster.strategy decides how hosts train together",
            )


def _inputs(draft: Draft, given: Any) -> None:
    is_one = isinstance(given, str) or (
        isinstance(given, dict) and (_uri(given) or "file_system_id" in given)
    )
    channels = {"training": given} if is_one else given or {}
    if isinstance(channels, list):
        channels = {str(each.get("channel_name", "training")): each.get("data_source") for each in channels}
    for name, value in channels.items():
        uri = value if isinstance(value, str) else _uri(value)
        if uri and not uri.startswith(UNKNOWN):
            add_channel(draft, str(name), uri.removeprefix("file://"), "inputs")
        else:
            draft.origin.note("inputs", name, reason="its place is not literal; add it to `data`")


def _uri(value: Any) -> str:
    found = value or {}
    for key in ("s3_data", "s3_data_source", "S3Uri", "s3_uri", "data_source"):
        if isinstance(found, dict) and key in found:
            return _uri(found[key]) if isinstance(found[key], dict) else str(found[key])
    return found if isinstance(found, str) else ""
