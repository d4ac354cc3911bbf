"""A Slurm batch script (https://slurm.schedmd.com/sbatch.html) as a job file."""

import re
import shlex
from collections.abc import Container, Sequence

from trainyard.client.errors import NotImportable
from trainyard.client.importing.draft import AS_WRITTEN, HOST_LINES, Draft
from trainyard.client.importing.foreign import Foreign, Keys, Note
from trainyard.core.model.gpus import Wanted

LAUNCHER = "Slurm"
DIRECTIVE = re.compile(r"^#SBATCH\s+(.+?)(?:\s#.*)?$")
SHORT = {
    "J": "job-name",
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "G": "gpus",
    "t": "time",
    "p": "partition",
    "A": "account",
    "q": "qos",
    "o": "output",
    "e": "error",
    "a": "array",
    "C": "constraint",
    "d": "dependency",
    "D": "chdir",
    "w": "nodelist",
    "x": "exclude",
    "L": "licenses",
}
REASONS = {
    "partition": "a yard has no partitions",
    "account": "the yard's AWS account pays; `labels` can name a project",
    "qos": "a yard has no QOS levels",
    "output": "the run's log holds what the program prints",
    "error": "the run's log holds what the program prints",
    "open-mode": "the run's log holds what the program prints",
    "mail-type": "notifications are a setting of the yard (notify)",
    "mail-user": "notifications are a setting of the yard (notify)",
    "array": "an array has no counterpart: submit the job once for each task, "
    "with another value of program.args",
    "dependency": "a run waits for no other run",
    "constraint": "hardware.instance_types decides the kind of host",
    "nodelist": "hosts are launched for the run",
    "exclude": "hosts are launched for the run",
    "exclusive": "a host belongs to one run only",
    "mem": "hardware.instance_types decides the memory of a host",
    "mem-per-cpu": "hardware.instance_types decides the memory of a host",
    "mem-per-gpu": "hardware.instance_types decides the memory of a host",
    "cpus-per-task": "hardware.instance_types decides the processors of a host",
    "cpus-per-gpu": "hardware.instance_types decides the processors of a host",
    "requeue": "interrupted runs continue by themselves (limits.restarts)",
    "no-requeue": "write limits.restarts: 0 to end the run at its first interruption",
    "signal": "a program gets SIGTERM, and 120 s to save",
    "export": "programs get program.environment only",
    "chdir": "programs run in their own folder, which holds program.source",
    "licenses": "a yard has no licenses",
    "gpu-bind": "the program sees all GPUs of its host",
    "hint": "hosts are not shared",
    "distribution": "one process starts on each host",
    "ntasks-per-socket": "one process starts on each host",
    "wckey": "`labels` can name a project",
    "comment": "`labels` can hold a comment",
    "reservation": "hosts are launched for the run",
    "gres-flags": "hosts are not shared",
    "switches": "a gang is launched in one zone",
    "get-user-env": "programs get program.environment only",
    "time-min": "limits.hours is the longest duration",
    "begin": "EventBridge Scheduler can upload a job file to s3://BUCKET/jobs/by/YOU/ at a time",
    "nice": "write priority, from 0 to 100, for the order of waiting runs",
}
FLAGS = frozenset(
    {
        "exclusive",
        "requeue",
        "no-requeue",
        "overcommit",
        "oversubscribe",
        "get-user-env",
        "hold",
        "parsable",
        "verbose",
    }
)
"""The options of sbatch that may have no value."""
SRUN_FLAGS = frozenset(
    [
        "-l",
        "--label",
        "-u",
        "--unbuffered",
        "--exclusive",
        "--overlap",
        "--pty",
        "-Q",
        "--quiet",
        "-v",
        "--verbose",
        "-K",
        "--exact",
        "--no-kill",
    ]
)
"""The options of srun that have no value."""
SITE = re.compile(r"^\s*(?:module|ml|spack)\s+\S")
"""Commands that set up the software of a cluster."""
ENVIRONMENT = re.compile(
    r"\s*(?:source|\.)\s+\S*activate|\s*(?:conda|mamba|micromamba)\s+activate|\s*source\s+\S*\.bashrc"
)
"""Commands that activate an environment of a cluster."""
INCLUDE = re.compile(r"\s*(?:source|\.)\s+([\w.-]\S*)")
"""Commands that read another script from a relative path."""
SRUN = re.compile(r"(?:^|[;&|(]\s*|\s)srun\s")
OPTIONS = re.compile(r"^\s*(?:export\s+)?(\w+)=[\"'(]*\s*-", re.MULTILINE)
"""An assignment of options to a variable."""
OTHER = re.compile(r"#(?:PBS|BSUB|COBALT|\$)\s+-")
"""The options of other schedulers."""
VARIABLES = {
    "SLURM_PROCID": "$RANK",
    "SLURM_NTASKS": "$WORLD_SIZE",
    "SLURM_NPROCS": "$WORLD_SIZE",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "$NODE_RANK",
    "SLURM_NNODES": "$NNODES",
    "SLURM_JOB_NUM_NODES": "$NNODES",
    "SLURM_NTASKS_PER_NODE": "1",
    "SLURM_GPUS_ON_NODE": "$(nvidia-smi -L | wc -l)",
    "SLURM_GPUS_PER_NODE": "$(nvidia-smi -L | wc -l)",
    "SLURM_CPUS_PER_TASK": "$(nproc)",
    "SLURM_CPUS_ON_NODE": "$(nproc)",
    "SLURM_JOB_ID": "$TRAINYARD_RUN",
    "SLURM_JOBID": "$TRAINYARD_RUN",
    "SLURM_JOB_NAME": "$TRAINYARD_RUN",
    "SLURM_RESTART_COUNT": "$(( TRAINYARD_ATTEMPT - 1 ))",
    "SLURM_SUBMIT_DIR": "$PWD",
    "SLURM_TMPDIR": "${TMPDIR:-/tmp}",
    "SLURM_JOB_NODELIST": HOST_LINES,
    "SLURM_NODELIST": HOST_LINES,
    "SLURM_LAUNCH_NODE_IPADDR": "$MASTER_ADDR",
}
SCONTROL = (
    'scontrol() { printf "%s\\n" "${@: -1}"; }  # prints the hosts, as `scontrol show hostnames LIST` does'
)


def read_script(text: str) -> Foreign:
    """Read the options of a batch script by their long names, and its lines under `script`."""
    values, lines, script = dict[str, str | bool](), dict[Keys, int](), list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if found := DIRECTIVE.match(line):
            for name, value in _options(found[1]):
                values[name] = value
                lines[name,] = number
        else:
            lines["script", len(script)] = number
            script.append(line)
    return Foreign({**values, "script": script}, lines)


def recognizes_text(text: str) -> bool:
    """Return True for a script with options of sbatch."""
    return re.search(r"^#SBATCH\s+-", text, re.MULTILINE) is not None


def _options(text: str) -> Sequence[tuple[str, str | bool]]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    found = list[tuple[str, str | bool]]()
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, sign, value = word[2:].partition("=")
            if not sign and name not in FLAGS and words and not words[0].startswith("-"):
                value, sign = words.pop(0), "="
            found.append((name, value if sign else True))
        elif word.startswith("-") and len(word) > 1:
            name, value = SHORT.get(word[1], word[1]), word[2:].lstrip("=")
            if not value and words and not words[0].startswith("-"):
                value = words.pop(0)
            found.append((name, value or True))
    return found


def convert(foreign: Foreign, stem: str) -> Draft:
    """Convert a batch script. Raise NotImportable for a script without commands."""
    draft = Draft(foreign, LAUNCHER)
    draft.name(foreign.take("job-name"), stem)
    nodes = _count(foreign.take("nodes")) or 1
    _script(draft, nodes)
    _gpus(draft, nodes)
    draft.hosts(nodes, "nodes")
    draft.put("on_demand", "hardware", "market")
    if limit := foreign.take("time"):
        draft.hours(_hours(str(limit)), "time")
    tasks = foreign.take("ntasks-per-node") or foreign.take("ntasks")
    foreign.take("ntasks")
    if _count(tasks) > nodes:
        foreign.note(
            "ntasks-per-node" if foreign.look("ntasks-per-node") else "ntasks",
            reason="one process starts on each host; for one process a GPU let torchrun or the strategy start them",
        )
    for name, reason in REASONS.items():
        foreign.leave(name, reason=reason)
    draft.put("./", "program", "source")
    return draft


def _count(value: object) -> int:
    found = re.match(r"\d+", str(value or ""))
    return int(found[0]) if found else 0


def _hours(text: str) -> float:
    """Return the hours of a time limit: minutes, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM` or `D-HH:MM:SS`."""
    days, dash, rest = text.rpartition("-")
    parts = [float(part) for part in rest.split(":") if part.replace(".", "", 1).isdigit()]
    if dash:
        scale: Sequence[float] = (1, 1 / 60, 1 / 3600)
    elif len(parts) == 3:
        scale = (1, 1 / 60, 1 / 3600)
    else:
        scale = (1 / 60, 1 / 3600)
    hours = sum(part * factor for part, factor in zip(parts, scale, strict=False))
    return hours + (24 * float(days) if days.isdigit() else 0)


def _gpus(draft: Draft, nodes: int) -> None:
    foreign = draft.origin
    kind, count, item = "", 0, ""
    for name in ("gres", "gpus-per-node", "gpus-per-task", "gpus", "gpus-per-socket"):
        asked = foreign.take(name)
        if asked is None or (name == "gres" and "gpu" not in str(asked)):
            continue
        text = (
            next((each for each in str(asked).split(",") if "gpu" in each), str(asked))
            if name == "gres"
            else str(asked)
        )
        *named, last = text.removeprefix("gres/").removeprefix("gpu").lstrip(":").split(":")
        number = _count(last) if last else 1
        if last and not last.isdigit():
            named, number = [last], 1
        kind = named[-1] if named else kind
        per_host = max(1, number // nodes) if name == "gpus" else number
        count, item = max(count, per_host), name
    if count:
        draft.gpus([Wanted((kind,) if kind else (), count)], item)
    else:
        foreign.notes.append(Note(None, "gres", "the script asks for no GPU; the job runs on processors"))
        draft.put(["m7i.2xlarge", "m6i.2xlarge"], "hardware", "instance_types")


def _script(draft: Draft, nodes: int) -> None:
    foreign = draft.origin
    lines = _join_lines(foreign.take("script"))
    if not any(line.strip() and not line.lstrip().startswith("#") for _, line in lines):
        raise NotImportable("the script runs nothing", "name the script with the commands")
    if lines[0][1].startswith("#!"):
        lines = lines[1:]
    text = "\n".join(line for _, line in lines)
    if re.search(r"\bscontrol\s+show\s+hostnames?\b", text):
        draft.shell(SCONTROL)
    draft.shell(AS_WRITTEN)
    options = frozenset(OPTIONS.findall(text))
    for number, line in lines:
        draft.shell(_translate_lines(line, number, foreign, options), "script", number)
    draft.provide(VARIABLES)
    unset = set(re.findall(r"SLURM_\w+", text)) - set(VARIABLES)
    for name in sorted(unset):
        number = next(number for number, line in lines if name in line)
        _report(foreign, number, name, "the script reads this variable, which hosts do not have")
    if nodes > 1:
        foreign.note(
            "nodes",
            reason="Slurm runs the script on its first host, and `srun` on all; here all lines run on every "
            "host ($NODE_RANK is its number)",
        )


def _join_lines(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return the lines with their numbers, and join each line that ends in a backslash to the next line."""
    joined, held, start = list[tuple[int, str]](), "", 0
    for number, line in enumerate(lines):
        start = start if held else number
        held += line
        if held.endswith("\\") and not held.lstrip().startswith("#"):
            held = held[:-1] + " "
            continue
        joined.append((start, held))
        held = ""
    return [*joined, *([(start, held)] if held else [])]


def _report(foreign: Foreign, number: int, item: str, reason: str) -> None:
    """Report an item of the script's line `number`, counted from 0 without the options of sbatch."""
    foreign.notes.append(Note(foreign.line(("script", number)), item, reason))


def _translate_lines(line: str, number: int, foreign: Foreign, options: Container[str]) -> str:
    """Return the line without Slurm's commands. Report a line that changes. `options` has the names of variables that
    hold options."""
    text = line.strip()
    if OTHER.match(line):
        _report(foreign, number, text, "an option of another scheduler; the job file has no counterpart")
    elif SITE.match(line):
        reason = "software of the cluster; the yard's image has its own CUDA and TensorFlow"
        _report(foreign, number, text, reason)
        return f": # {text}"
    elif ENVIRONMENT.match(line):
        reason = "an environment of the cluster; packages belong into program.requirements"
        _report(foreign, number, text, reason)
        return f": # {text}"
    elif found := INCLUDE.match(line):
        reason = f"hosts get {found[1]} only if it is in the folder of the job file, which is sent along"
        _report(foreign, number, text, reason)
    elif SRUN.search(line) and not text.startswith("#"):
        shown = " ".join(line.split())[:60]
        _report(foreign, number, "srun", f"`{shown}` runs without srun on each host")
        return _without_srun(line, options)
    return line


def _without_srun(line: str, options: Container[str]) -> str:
    """Return the line without `srun` and its options."""
    before, rest = re.split(r"\bsrun\s+", line, maxsplit=1)
    words = list[str](re.findall(r"""\s*(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'])+""", rest))
    while words and _is_option(words[0], options):
        option = words.pop(0).strip()
        takes_value = (
            option.startswith("-")
            and "=" not in option
            and option not in SRUN_FLAGS
            and not re.fullmatch(r"-\w\S+", option)
        )
        if takes_value and words and not _is_option(words[0], options) and len(words) > 1:
            words.pop(0)
    return before + "".join(words).lstrip()


def _is_option(word: str, options: Container[str]) -> bool:
    variable = re.fullmatch(r"\"?\$\{?(\w+)(?:\[@\])?\}?\"?", word.strip())
    return word.strip().startswith("-") or bool(variable and variable[1] in options)
