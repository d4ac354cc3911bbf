"""A dstack task (https://dstack.ai/docs/reference/dstack.yml/task/) as a job file."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from trainyard.client.errors import NotImportable
from trainyard.client.importing.container import put_image
from trainyard.client.importing.draft import ENDS_EARLY, HOST_LINES, Draft, is_file
from trainyard.client.importing.foreign import LIST, MAPPING, NUMBER, TEXT, Foreign, Keys, Note, Shape
from trainyard.command_line import command_line
from trainyard.core.model.gpus import Wanted

LAUNCHER = "dstack"
TYPES = ("task", "dev-environment", "service", "fleet", "volume", "gateway")
VARIABLES = {
    "DSTACK_NODE_RANK": "$NODE_RANK",
    "DSTACK_NODES_NUM": "$NNODES",
    "DSTACK_MASTER_NODE_IP": "$MASTER_ADDR",
    "DSTACK_NODES_IPS": HOST_LINES,
    "DSTACK_GPUS_PER_NODE": "$(nvidia-smi -L | wc -l)",
    "DSTACK_GPUS_NUM": "$(( NNODES * $(nvidia-smi -L | wc -l) ))",
    "DSTACK_RUN_NAME": "$TRAINYARD_RUN",
}
MARKETS = {"spot": "spot", "on-demand": "on_demand", "auto": "spot_then_on_demand"}
RUN_ARGUMENTS = re.compile(r"\$\{\{\s*run\.args\s*\}\}")
SECRET = re.compile(r"\$\{\{\s*secrets\.(\w+)\s*\}\}")
UNITS = {"": 1.0, "s": 1 / 3600, "m": 1 / 60, "h": 1.0, "d": 24.0, "w": 168.0}
IGNORED = {
    "ports": "no port of a host is open to others; TensorBoard and shells have their own commands",
    "regions": "a yard is in one region",
    "availability_zones": "write hardware.zones",
    "backends": "a yard is in AWS",
    "fleets": "hosts of a warm pool are chosen by the job's section `pool`",
    "idle_duration": "patrol ends idle hosts; a run's hosts end with it",
    "creation_policy": "each run launches hosts, or claims hosts of the warm pool",
    "utilization_policy": "patrol watches every host (policy)",
    "stop_duration": "a program has 120 s to save after SIGTERM",
    "privileged": "programs have no rights of root on their hosts",
    "user": "programs run as the USER of their image, or under an account of their own",
    "docker": "programs start no containers of their own",
    "entrypoint": "write the words of the entrypoint before the words of program.command",
    "home_dir": "programs run in their own folder",
    "registry_auth": "a secret of the yard has the login (program.container.login)",
    "volumes": "hosts mount no volumes; data come from S3, results go there by themselves",
    "startup_order": "all hosts of a gang start together",
    "single_branch": "the whole folder is sent along",
    "schedule": "the section schedule of the job file has cron and zone (docs/tasks/schedules.md)",
}

SHAPES = {
    **dict.fromkeys(("name", "working_dir", "commands.*"), TEXT),
    **dict.fromkeys(("commands", "files", "instance_types"), LIST),
    **dict.fromkeys(("nodes", "max_price", "priority"), NUMBER),
    "resources": MAPPING,
    "env": Shape((dict, list), "a list or a mapping"),
}
"""The forms of a task's values."""


def recognizes(foreign: Foreign) -> Keys | None:
    """Return the path of the `type` of a dstack configuration, or None."""
    return ("type",) if foreign.look("type") in TYPES else None


def convert(foreign: Foreign, stem: str) -> Draft:
    """Convert a task. Raise NotImportable for a file without a task, and for a task without commands."""
    if (kind := foreign.take("type")) != "task":
        instead = (
            command_line("dev", "up")
            if kind == "dev-environment"
            else "import a configuration of `type: task`"
        )
        raise NotImportable(
            f"the file describes a {kind} of dstack, and a job file describes a task", instead
        )
    foreign.leave_misshapen(SHAPES)
    draft = Draft(foreign, LAUNCHER)
    draft.name(foreign.take("name"), stem.removesuffix(".dstack"))
    commands = foreign.take("commands") or []
    has_login = bool(foreign.look("registry_auth"))
    image = foreign.take("image")
    is_contained = put_image(draft, image, None, "image", has_login=has_login, entrypoint=not commands)
    if not commands and not is_contained:
        raise NotImportable("the task has neither `commands` nor an `image`", "add one of them")
    if commands and (folder := foreign.take("working_dir")):
        draft.shell(f"cd {folder}")
    for number, each in enumerate(commands):
        draft.shell(RUN_ARGUMENTS.sub('"$@"', str(each)), "commands", number)
    if commands:
        foreign.note("commands", reason=ENDS_EARLY)
    _variables(draft)
    draft.provide(VARIABLES)
    _files(draft, is_own_program=bool(commands))
    _resources(draft)
    _limits(draft)
    draft.hosts(foreign.take("nodes", default=1), "nodes")
    if isinstance(tags := foreign.take("tags"), dict):
        draft.labels(tags, "tags")
    for key in ("python", "nvcc"):
        foreign.leave(
            key,
            reason="hosts start from an image of the yard with its own Python and CUDA; what the program needs "
            "belongs into program.requirements or a recipe",
        )
    for key, reason in IGNORED.items():
        foreign.leave(key, reason=reason)
    return draft


def _variables(draft: Draft) -> None:
    given = draft.origin.take("env") or {}
    items = list[tuple[str | int, str, Any]]()
    if isinstance(given, dict):
        items = [(name, name, value) for name, value in given.items()]
    else:
        items = [(number, *str(each).partition("=")[::2]) for number, each in enumerate(given)]
    for place, name, value in items:
        if SECRET.search(str(value)):
            draft.secret(name, "env", place)
        else:
            draft.variable(name, value or None, "env", place)


def _files(draft: Draft, *, is_own_program: bool) -> None:
    """Set the program's source. The program of an image needs none."""
    foreign = draft.origin
    match foreign.take("repos") or foreign.take("repo") or []:
        case [str(url), *more] if "://" in url:
            draft.put(f"git+{url}", "program", "source")
        case [{"url": str(url)} as repo, *more]:
            ref = repo.get("branch") or repo.get("hash")
            draft.put(f"git+{url}{f'@{ref}' if ref else ''}", "program", "source")
        case [_, *more]:
            draft.put("./", "program", "source")
        case _:
            more = []
    if more:
        foreign.note("repos", reason="a job has one source; the first repository is taken")
    files = foreign.take("files") or []
    if files and "source" not in draft.job.get("program", {}):
        first = files[0] if isinstance(files[0], str) else files[0].get("local_path", ".")
        folder = first.partition(":")[0]
        draft.source(PurePosixPath(folder).parent if is_file(folder) else folder, "files")
        for number, each in enumerate(files[1:], start=1):
            foreign.note("files", number, reason=f"a job has one source folder; put {each} into it")
    if is_own_program and "source" not in draft.job.get("program", {}):
        draft.put("./", "program", "source")
        foreign.notes.append(
            Note(None, "files", "the folder of the job file is sent along as the program's source")
        )


def _resources(draft: Draft) -> None:
    foreign = draft.origin
    at = "resources"
    market = MARKETS.get(str(foreign.take("spot_policy") or "on-demand"), "on_demand")
    draft.put(market, "hardware", "market")
    if isinstance(types := foreign.take("instance_types"), list):
        draft.types([str(each) for each in types], "instance_types")
    gpu = foreign.take(at, "gpu")
    vcpus = _range(foreign.take(at, "cpu"))[0]
    if gpu is None and "hardware" in draft.job and "instance_types" not in draft.job["hardware"]:
        foreign.note(at, reason="the task asks for no GPU; the job runs on processors")
        draft.put(["m7i.2xlarge", "m6i.2xlarge"], "hardware", "instance_types")
    elif gpu is not None:
        draft.gpus(_gpus(gpu, int(vcpus)), at, "gpu")
    if disk := foreign.take(at, "disk"):
        size = disk.get("size") if isinstance(disk, dict) else disk
        draft.disk(_range(size)[0], at, "disk")
    foreign.leave(at, "memory", reason="hardware.instance_types decides the memory of a host")
    foreign.leave(at, "shm_size", reason="shared memory is half of a host's memory")


def _limits(draft: Draft) -> None:
    foreign = draft.origin
    if (price := foreign.take("max_price")) is not None:
        nodes = foreign.look("nodes")
        hosts = nodes if isinstance(nodes, int) else 1
        draft.put(float(price) * hosts, "hardware", "max_dollars_per_hour")
        if hosts > 1:
            foreign.note(
                "max_price", reason=f"hardware.max_dollars_per_hour counts all {hosts} hosts together"
            )
    if (duration := foreign.take("max_duration")) not in (None, "off", False):
        draft.hours(_hours(duration), "max_duration")
    match foreign.take("retry"):
        case {"duration": duration} if duration:
            draft.put(min(1440.0, round(60 * _hours(duration), 2)), "limits", "wait_minutes")
        case True | None:
            pass
        case False:
            draft.put(0, "limits", "restarts")
    foreign.take("retry_policy")
    priority = foreign.take("priority")
    if priority in range(101):
        draft.put(int(priority), "priority")
    elif priority is not None:
        foreign.note(
            "priority", reason=f"found {priority}; a whole number from 0 to 100 is allowed; left out"
        )


def _hours(duration: Any) -> float:
    """Return the hours of a duration in dstack's format: `2h`, `90m`, `1d`, or a number of seconds."""
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        return duration / 3600
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw]?)\s*", str(duration))
    return float(found[1]) * UNITS[found[2]] if found else 0.0


def _range(value: Any) -> tuple[float, float | None]:
    """Return the bounds of a range (`24GB..80GB`, `8..`, `4`) in GB or as counts. The upper bound may be None."""
    if isinstance(value, Mapping):
        return _range(value.get("min") or value.get("count"))[0], None
    low, dots, high = str(value or "").partition("..")
    sizes = [re.match(r"\s*(\d+(?:\.\d+)?)\s*(T|M)?", each, re.IGNORECASE) for each in (low, high)]
    numbers = [
        float(each[1]) * {"T": 1024.0, "M": 1 / 1024}.get((each[2] or "").upper(), 1.0) if each else None
        for each in sizes
    ]
    return numbers[0] or 0.0, numbers[1] if dots else numbers[0]


def _gpus(asked: Any, vcpus: int) -> list[Wanted]:
    """Return the GPUs in `resources.gpu`: a number, `24GB`, `A100:80GB:8`, `A100,H100:2`, or a mapping."""
    if isinstance(asked, dict):
        name = asked.get("name") or []
        names = [str(each) for each in name] if isinstance(name, list) else str(name).split(",")
        count = int(_range(asked.get("count", 1))[0] or 1)
        memory = _range(asked.get("memory"))[0]
        return [Wanted(tuple(filter(None, map(str.strip, names))), count, memory, vcpus)]
    names, count, memory = list[str](), 1, 0.0
    for part in str(asked).split(":"):
        if re.search(r"\d\s*(?:GB|TB|MB)", part, re.IGNORECASE):
            memory = _range(part)[0]
        elif re.fullmatch(r"\s*\d+(\.\.\d*)?\s*", part):
            count = int(_range(part)[0] or 1)
        elif part.strip().lower() not in ("nvidia", ""):
            names += [name.strip() for name in part.split(",")]
    return [Wanted(tuple(names), count, memory, vcpus)]
