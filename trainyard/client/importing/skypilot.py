"""A SkyPilot task (https://docs.skypilot.co/en/latest/reference/yaml-spec.html) as a job file."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.client.errors import NotImportable
from trainyard.client.importing.container import put_image
from trainyard.client.importing.draft import AS_WRITTEN, HOST_LINES, Draft, is_file, times
from trainyard.client.importing.foreign import LIST, MAPPING, NUMBER, TEXT, Foreign, Keys
from trainyard.core.model.gpus import Wanted

LAUNCHER = "SkyPilot"
VARIABLES = {
    "SKYPILOT_NODE_RANK": "$NODE_RANK",
    "SKYPILOT_NUM_NODES": "$NNODES",
    "SKYPILOT_NODE_IPS": HOST_LINES,
    "SKYPILOT_NUM_GPUS_PER_NODE": "$(nvidia-smi -L | wc -l)",
    "SKYPILOT_TASK_ID": "$TRAINYARD_RUN",
}
"""The variables of a task, with their values on a host of Trainyard."""
VARIABLE = re.compile(r"\$\{?(\w+)\}?")
LOGIN, SERVER = "SKYPILOT_DOCKER_", "SKYPILOT_DOCKER_SERVER"
"""The variables with the login to a registry of container images, and the one with its address."""
DOCKER = "docker:"
SERVING = ("service", "pool")
LOCATION_KEYS = ("cloud", "region", "zone", "infra")

SHAPES = {
    **dict.fromkeys(("run", "setup", "name", "resources.instance_type"), TEXT),
    **dict.fromkeys(("envs", "secrets", "file_mounts", "volumes", "resources"), MAPPING),
    **dict.fromkeys(("num_nodes", "resources.max_hourly_cost"), NUMBER),
    **dict.fromkeys(("resources.any_of", "resources.ordered", "resources.candidates"), LIST),
}
"""The forms of a task's values."""


def recognizes(foreign: Foreign) -> Keys | None:
    """Return the path of a task's `run` or `setup`, or None. Tasks of dstack have neither."""
    return foreign.first("run", "setup")


def convert(foreign: Foreign, stem: str) -> Draft:
    """Convert a task. Raise NotImportable for a service, and for a task without a program."""
    for key in SERVING:
        if foreign.look(key) is not None:
            raise NotImportable(
                f"the file describes a {key}, which answers requests",
                "import a task; Trainyard runs training only",
            )
    foreign.leave_misshapen(SHAPES)
    draft = Draft(foreign, LAUNCHER)
    draft.name(foreign.take("name"), stem)
    _program(draft)
    _mounts(draft)
    _resources(draft)
    draft.hosts(foreign.take("num_nodes", default=1), "num_nodes")
    foreign.leave(
        "event_callback",
        reason="notifications are a setting of the yard (notify)",
    )
    foreign.leave("config", reason="settings of SkyPilot's server")
    foreign.leave("experimental", reason="settings of SkyPilot's server")
    return draft


def _program(draft: Draft) -> None:
    foreign = draft.origin
    setup, run = foreign.take("setup"), foreign.take("run")
    if not run and not setup:
        raise NotImportable("the task has no `run`", "add the commands that train")
    draft.shell(AS_WRITTEN)
    if setup and run:  # SkyPilot runs each in a shell of its own
        draft.shell("(")
        draft.shell(str(setup).rstrip(), "setup")
        draft.shell(") || exit")
    draft.shell(str(run or setup), "run" if run else "setup")
    if not run:
        foreign.note("setup", reason="the task has no `run`: the program of this job ends with the setup")
    workdir = foreign.take("workdir")
    match workdir:
        case {"url": str(url)}:
            ref = workdir.get("ref") or workdir.get("branch") or workdir.get("commit")
            draft.put(f"git+{url}{f'@{ref}' if ref else ''}", "program", "source")
        case str():
            draft.source(workdir, "workdir")
    for name, value in foreign.mapping("envs").items():
        foreign.take("envs", name)
        if not name.startswith(LOGIN):
            draft.variable(name, value, "envs", name)
    for name in foreign.mapping("secrets"):
        foreign.take("secrets", name)
        if not name.startswith(LOGIN):
            draft.secret(name, "secrets", name)
    draft.provide(VARIABLES)


def _mounts(draft: Draft) -> None:
    foreign = draft.origin
    for section in ("file_mounts", "volumes"):
        for target, mount in foreign.mapping(section).items():
            path = (section, target)
            foreign.take(*path)
            if section == "volumes":
                foreign.note(
                    *path, reason="hosts mount no volumes; data come from S3, results go there by themselves"
                )
            else:
                _mount(draft, target, _fill_in(draft, mount), path)


def _fill_in(draft: Draft, mount: Any) -> Any:
    """Return a mount after replacing the task's own variables."""
    given = draft.origin.mapping("envs")
    if isinstance(mount, Mapping):
        return {key: _fill_in(draft, value) for key, value in mount.items()}
    if isinstance(mount, str):
        return VARIABLE.sub(lambda found: str(given.get(found[1]) or found[0]), mount)
    return mount


def _mount(draft: Draft, target: str, mount: Any, path: tuple[str, ...]) -> None:
    """Turn a mounted source into a data entry, and a bucket that the task writes to into the folder of checkpoints."""
    source = mount.get("source") or mount.get("name") if isinstance(mount, Mapping) else mount
    if isinstance(mount, Mapping) and mount.get("name") and not mount.get("source"):
        source = f"{mount.get('store') or 's3'}://{source}"
    mode = str(mount.get("mode", "MOUNT")).upper() if isinstance(mount, Mapping) else "COPY"
    writes = isinstance(mount, Mapping) and mode.startswith("MOUNT") and _looks_written(target, source)
    if writes:
        used = draft.replace(target, "$TRAINYARD_CHECKPOINTS")
        draft.origin.note(
            *path,
            reason="a bucket that the program writes to becomes the folder $TRAINYARD_CHECKPOINTS, which is kept in "
            f"the yard's bucket and restored after an interruption ({times(used)} in the commands)",
        )
        return
    sources = source if isinstance(source, list) else [source]
    if not any(sources):
        draft.origin.note(*path, reason="the mount has no source")
        return
    if len(sources) > 1:
        draft.origin.note(*path, reason=f"several sources in one folder; only {sources[0]} is taken")
    if is_file(str(sources[0])):
        draft.file(str(sources[0]), target, *path)
        return
    entry = draft.data(str(sources[0]), target.rstrip("/").rpartition("/")[2] or "data", *path)
    if entry:
        used = draft.replace(target, f"$TRAINYARD_DATA_{entry.upper()}")
        draft.origin.note(
            *path, reason=f"lies in $TRAINYARD_DATA_{entry.upper()} ({times(used)} in the commands)"
        )


def _looks_written(target: str, source: Any) -> bool:
    words = re.compile(r"check ?point|ckpt|output|result|model|log|artifact|save", re.IGNORECASE)
    return bool(words.search(target)) or (isinstance(source, str) and bool(words.search(source)))


def _resources(draft: Draft) -> None:
    foreign = draft.origin
    base, choices = foreign.mapping("resources"), _choices(foreign)
    wanted, types, spots = list[Wanted](), list[str](), list[Any]()
    for path, choice in choices:
        both = {**base, **choice}
        spots.append(both.get("use_spot"))
        if both.get("instance_type"):
            types.append(str(both["instance_type"]))
        elif both.get("accelerators"):
            wanted += [
                Wanted((name,), count, vcpus=_least(both.get("cpus")))
                for name, count in _accelerators(both["accelerators"])
            ]
        for key in ("use_spot", "instance_type", "accelerators"):
            foreign.take(*path, key)
    for key in ("use_spot", "instance_type", "accelerators", "cpus"):
        foreign.take("resources", key)
    path = ("resources", "instance_type" if types else "accelerators")
    if types:
        draft.types(types, *path)
    elif wanted:
        draft.gpus(wanted, *path)
    else:
        foreign.note("resources", reason="the task asks for no GPU; the job runs on processors")
        draft.put(["m7i.2xlarge", "m6i.2xlarge"], "hardware", "instance_types")
    _market(draft, spots)
    _other_resources(draft)


def _choices(foreign: Foreign) -> list[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """Return the alternatives of `any_of` and `ordered` with their paths, or a single empty alternative without
    them."""
    found = list[tuple[tuple[str | int, ...], Mapping[str, Any]]]()
    for key in ("any_of", "ordered", "candidates"):
        for number, each in enumerate(foreign.look("resources", key) or []):
            if isinstance(each, dict):
                found.append((("resources", key, number), each))
                for place in LOCATION_KEYS:
                    foreign.leave("resources", key, number, place, reason=_PLACE)
    return found or [(("resources",), {})]


_PLACE = (
    "a yard is in one region of AWS and looks for capacity in all of its zones (hardware.zones chooses some)"
)


def _accelerators(asked: Any) -> Iterator[tuple[str, int]]:
    """Yield the kinds of accelerators and their counts: `A100:8`, {A100: 8}, and lists of these."""
    match asked:
        case dict():
            for name, count in asked.items():  # {A100: 8}, and {A100:8}, which YAML reads as the key "A100:8"
                yield from _accelerators(name if count is None else f"{name}:{count}")
        case list() | set():
            for each in asked:
                yield from _accelerators(each)
        case _:
            name, _, count = str(asked).partition(":")
            yield name.strip(), int(float(count)) if count.strip().replace(".", "", 1).isdigit() else 1


def _least(cpus: Any) -> int:
    found = re.match(r"\d+", str(cpus or ""))
    return int(found[0]) if found else 0


def _market(draft: Draft, spots: list[Any]) -> None:
    if any(spots) and not all(spots):
        draft.put("spot_then_on_demand", "hardware", "market")
    else:
        draft.put("spot" if all(spots) else "on_demand", "hardware", "market")


def _other_resources(draft: Draft) -> None:
    foreign = draft.origin
    at = "resources"
    if disk := foreign.take(at, "disk_size"):
        size = re.match(r"(\d+)\s*(t?)", str(disk).lower())
        if size:
            draft.disk(int(size[1]) * (1024 if size[2] else 1), at, "disk_size")
    if (price := foreign.take(at, "max_hourly_cost")) is not None:
        draft.put(float(price), "hardware", "max_dollars_per_hour")
    recovery = foreign.take(at, "job_recovery") or foreign.take(at, "spot_recovery")
    match recovery:
        case {"max_restarts_on_errors": _}:
            foreign.note(
                at, "job_recovery", reason="an error of the program itself ends a run; interruptions never do"
            )
    for place in LOCATION_KEYS:
        foreign.leave(at, place, reason=_PLACE)
    _image(draft)
    foreign.leave(
        at,
        "ports",
        reason="no port of a host is open to others; TensorBoard and shells have their own commands",
    )
    foreign.leave(at, "memory", reason="hardware.instance_types decides the memory of a host")
    foreign.leave(at, "autostop", reason="patrol ends idle hosts; a run's hosts end with it")
    foreign.leave(at, "disk_tier", reason="disks are gp3, as the image has them")
    foreign.leave(at, "network_tier", reason="a gang is launched in one zone")
    if isinstance(labels := foreign.take(at, "labels"), dict):
        draft.labels(labels, at, "labels")


def _image(draft: Draft) -> None:
    """Run the program in the first container image of the task. SkyPilot leaves its ENTRYPOINT out."""
    foreign, is_put = draft.origin, False
    for path in dict.fromkeys([("resources",), *(path for path, _ in _choices(foreign))]):
        image = _first(foreign.take(*path, "image_id") or "")
        where = (*path, "image_id")
        if image.startswith(DOCKER) and not is_put:
            given = {**foreign.mapping("envs"), **foreign.mapping("secrets")}
            has_login = any(name.startswith(LOGIN) and name != SERVER for name in given)
            name, server = image.removeprefix(DOCKER), given.get(SERVER)
            is_put = put_image(draft, name, server, *where, has_login=has_login, entrypoint=False)
        elif image:
            foreign.note(
                *where,
                reason=f"hosts start from an image of the yard, not from {image}; what the program needs belongs into "
                "program.requirements, a recipe, or a container image (program.container)",
            )


def _first(image: Any) -> str:
    return str(next(iter(image.values()), "") if isinstance(image, dict) else image)
