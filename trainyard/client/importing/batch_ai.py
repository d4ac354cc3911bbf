"""A job of Azure Batch AI (`az batchai job create -c job.json`) as a job file.

https://github.com/Azure/BatchAI/blob/master/schemas/2017-09-01-preview/job.json
"""

import re
import shlex
from typing import Any

from trainyard.client.errors import NotImportable
from trainyard.client.importing.container import put_image
from trainyard.client.importing.draft import ENDS_EARLY, Draft
from trainyard.client.importing.foreign import ITEM, LIST, MAPPING, NUMBER, TEXT, Foreign, Keys

LAUNCHER = "Azure Batch AI"
TOOLKITS = (
    "tensorFlowSettings",
    "customToolkitSettings",
    "customMpiSettings",
    "horovodSettings",
    "pyTorchSettings",
    "chainerSettings",
    "caffeSettings",
    "caffe2Settings",
    "cntkSettings",
)
WORDS = {
    "PS_HOSTS": "${ps_hosts}",
    "WORKER_HOSTS": "${worker_hosts}",
    "TASK_INDEX": "${task_index}",
}
"""The words that hosts replace, by the ends of Batch AI's variables (AZ_BATCHAI_PS_HOSTS)."""
IGNORED = {
    "stdOutErrPathPrefix": "the run's log holds what the program prints",
    "cluster": "hosts are launched for the run; hardware.instance_types decides their kind",
    "experimentName": "`labels` can name an experiment",
    "schedulingPriority": "write priority, from 0 to 100, for the order of waiting runs",
    "priority": "write priority, from 0 to 100, for the order of waiting runs",
    "mountVolumes": "hosts mount no volumes; data come from S3, results go there by themselves",
}
VARIABLE = re.compile(r"\$\{?AZ_BATCHAI_(\w+?)\}?(?![\w])")

LISTS = ("inputDirectories", "outputDirectories", "environmentVariables", "secrets")
SHAPES = {
    f"{at}{key}": shape
    for at in ("", "properties.")
    for key, shape in {
        **dict.fromkeys(("constraints", *TOOLKITS), MAPPING),
        **dict.fromkeys(LISTS, LIST),
        **{f"{name}.*": ITEM for name in LISTS},
        "nodeCount": NUMBER,
        **dict.fromkeys(("containerSettings", "containerSettings.imageSourceRegistry"), MAPPING),
        **{f"containerSettings.imageSourceRegistry.{key}": TEXT for key in ("serverUrl", "image")},
        **{f"{kit}.{key}": TEXT for kit in TOOLKITS for key in ("pythonScriptFilePath", "commandLine")},
        **{f"{kit}.{key}": NUMBER for kit in TOOLKITS for key in ("parameterServerCount", "workerCount")},
    }.items()
}
"""The forms of a job's values."""


def recognizes(foreign: Foreign) -> Keys | None:
    """Return the path of the toolkit's settings in a job of Batch AI, or None."""
    paths = ((*at, kit) for at in ((), ("properties",)) for kit in TOOLKITS)
    return next((path for path in paths if foreign.look(*path) is not None), None)


def convert(foreign: Foreign, stem: str) -> Draft:
    """Convert a job. Raise NotImportable for a toolkit without a script or command."""
    foreign.leave_misshapen(SHAPES)
    draft = Draft(foreign, LAUNCHER)
    at = ("properties",) if foreign.look("properties") else ()
    foreign.take("$schema")
    draft.name(foreign.take("name"), foreign.look(*at, "experimentName"), stem)
    folders = {
        str(each.get("id")): str(each.get("path")) for each in foreign.look(*at, "inputDirectories") or []
    }
    kit = next((name for name in TOOLKITS if foreign.look(*at, name) is not None), "")
    if not kit:
        raise NotImportable("the job has no settings of a toolkit", "add tensorFlowSettings")
    script, words = _program(draft, (*at, kit))
    source = _source(draft, script, folders, at)
    script = script.rpartition("/")[2] if source else script
    names = _data(draft, folders, source, at)
    _command(draft, script, words, names, (*at, kit), _outputs(draft, at))
    _hosts(draft, at, kit)
    for name, value in _variables(foreign, (*at, "environmentVariables")):
        draft.variable(name, value, *at, "environmentVariables")
    for each in foreign.take(*at, "secrets") or []:
        draft.secret(str(each.get("name")), *at, "secrets")
    if hours := foreign.take(*at, "constraints", "maxWallClockTime"):
        draft.hours(_hours(str(hours)), *at, "constraints", "maxWallClockTime")
    _container(draft, (*at, "containerSettings"))
    for name, reason in IGNORED.items():
        foreign.leave(*at, name, reason=reason)
    draft.put("on_demand", "hardware", "market")
    foreign.leave("location", reason="a yard is in one region")
    return draft


def _container(draft: Draft, at: tuple[str, ...]) -> None:
    """Run the program in the image of the job's container, if it has one."""
    foreign = draft.origin
    registry = (*at, "imageSourceRegistry")
    has_login = foreign.look(*registry, "credentials") is not None
    foreign.leave(
        *registry, "credentials", reason="a secret of the yard has the login (program.container.login)"
    )
    server, image = foreign.take(*registry, "serverUrl"), foreign.take(*registry, "image")
    put_image(draft, image, server, *registry, "image", has_login=has_login)
    foreign.leave(*at, "shmSize", reason="a container has the shared memory of its host")


def _program(draft: Draft, kit: tuple[str, ...]) -> tuple[str, str]:
    """Return the script and the arguments of the first role."""
    foreign = draft.origin
    line = foreign.take(*kit, "commandLine")
    if line:
        return "", str(line)
    script = foreign.take(*kit, "pythonScriptFilePath")
    if not script:
        raise NotImportable(
            f"{kit[-1]} names neither a script nor a command line", "add pythonScriptFilePath"
        )
    words = foreign.take(*kit, "masterCommandLineArgs") or foreign.take(*kit, "commandLineArgs") or ""
    foreign.leave(*kit, "pythonInterpreterPath", reason="the yard's image has its own Python")
    return str(script), str(words)


def _source(draft: Draft, script: str, folders: dict[str, str], at: tuple[str, ...]) -> str:
    """Send the folder of the script with the job. Return the id of its input directory, or an empty text."""
    found = VARIABLE.match(script)
    key = found[1].removeprefix("INPUT_") if found else ""
    if key not in folders:
        draft.put("./", "program", "source")
        return ""
    folder = folders[key].rstrip("/").rpartition("/")[2]
    draft.put(f"./{folder}", "program", "source")
    draft.origin.note(
        *at,
        "inputDirectories",
        reason=f"{key} ({folders[key]}) becomes ./{folder}, a folder beside the job file, which "
        "is sent along",
    )
    return key


def _data(draft: Draft, folders: dict[str, str], source: str, at: tuple[str, ...]) -> dict[str, str]:
    """Add a data entry for each other input directory. Return the names of the entries by the ids of the
    directories."""
    draft.origin.take(*at, "inputDirectories")
    names = {}
    for key, path in folders.items():
        if key != source:
            name = re.sub(r"\W+", "_", key.lower()).strip("_")
            draft.put(f"s3://BUCKET/data/{name}/", "data", name)
            names[key] = name
            draft.origin.note(
                *at,
                "inputDirectories",
                reason=f"{key} ({path}) is read from the yard's bucket; upload it: "
                f"aws s3 sync FOLDER s3://BUCKET/data/{name}/",
            )
    return names


def _outputs(draft: Draft, at: tuple[str, ...]) -> dict[str, str]:
    """Return the folder for each output directory: `${model}` for a model, otherwise a folder in the working folder."""
    found = {}
    for each in draft.origin.take(*at, "outputDirectories") or []:
        key = str(each.get("id"))
        is_model = "model" in key.lower() or str(each.get("type")).lower() == "model"
        found[key] = "${model}" if is_model else f"outputs/{key.lower()}"
        draft.origin.note(
            *at, "outputDirectories", reason=f"{key} becomes {found[key]}, which is kept in the yard's bucket"
        )
    return found


def _command(
    draft: Draft,
    script: str,
    words: str,
    names: dict[str, str],
    path: tuple[str, ...],
    outputs: dict[str, str],
) -> None:
    def filled(found: re.Match[str]) -> str:
        key = found[1]
        if key in WORDS:
            return WORDS[key]
        if key.startswith("INPUT_") and key.removeprefix("INPUT_") in names:
            return f"${{data.{names[key.removeprefix('INPUT_')]}}}"
        if key.startswith("OUTPUT_") and key.removeprefix("OUTPUT_") in outputs:
            return outputs[key.removeprefix("OUTPUT_")]
        draft.origin.note(*path, reason=f"{found[0]} has no counterpart; write its value")
        return found[0].replace("$", "$$") if found[0].startswith("${") else found[0]

    given = VARIABLE.sub(filled, words)
    if not script:
        lines = re.sub(r"\$\{data\.(\w+)\}", lambda data: f"$TRAINYARD_DATA_{data[1].upper()}", given)
        draft.shell(lines.replace("${model}", "$TRAINYARD_MODEL"), *path, "commandLine")
        draft.origin.note(*path, "commandLine", reason=ENDS_EARLY)
        return
    split = shlex.split(given)
    servers = bool(draft.origin.look(*path, "parameterServerCommandLineArgs"))
    if servers:
        split = [re.sub(r"^(--?job_name)=.*", r"\1=${job_name}", word) for word in split]
    draft.command(["python", script, *split], *path)
    for key in ("workerCommandLineArgs", "parameterServerCommandLineArgs"):
        if (own := draft.origin.take(*path, key)) and own != words and not _differs_by_role(str(own), words):
            draft.origin.note(
                *path, key, reason=f"all roles get the arguments of the first one; this one had: {own}"
            )


def _differs_by_role(own: str, first: str) -> bool:
    """Return True if two lists of arguments differ only in the role."""
    role = re.compile(r"--?job_name[= ]\w+")
    return role.sub("", own) == role.sub("", first)


def _hosts(draft: Draft, at: tuple[str, ...], kit: str) -> None:
    foreign = draft.origin
    nodes = foreign.take(*at, "nodeCount") or 1
    servers, workers = foreign.take(*at, kit, "parameterServerCount"), foreign.take(*at, kit, "workerCount")
    foreign.leave(*at, kit, "processCount", reason="one process starts on each host")
    if servers:
        workers = workers or nodes
        cluster = {
            "strategy": "parameter_server",
            "workers": workers,
            "parameter_servers": min(servers, workers),
        }
        draft.put({**cluster, "chief": "worker"}, "cluster")
        foreign.note(
            *at,
            "nodeCount",
            reason=f"Batch AI puts all roles onto {nodes} hosts; here each worker ({workers}) and each "
            f"parameter server ({servers}) has its own host",
        )
    else:
        draft.hosts(workers or nodes, *at, "nodeCount")


def _variables(foreign: Foreign, path: tuple[str, ...]) -> list[tuple[str, Any]]:
    return [(str(each.get("name")), each.get("value")) for each in foreign.take(*path) or []]


def _hours(duration: str) -> float:
    """Return the hours of an ISO 8601 duration: P1D, PT6H, PT30M."""
    found = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", duration)
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0, 0)
    return days * 24 + hours + minutes / 60 + seconds / 3600
