"""A program's environment and command line (docs/contracts/programs.md). Pure."""

import os
import re
from collections.abc import Mapping, Sequence

from training.host import account, credentials
from training.host.container.inside import Inside
from training.host.data.fetch import path_of
from training.host.errors import ProgramFault
from training.host.metadata import NO_FILES
from training.host.paths import Paths
from training.host.program import frameworks
from training.host.program.fetch import search_path
from training.host.program.frameworks import MASTER_PORT
from training.host.program.packages import commands_path, python_for
from training.host.program.process import SHELLS_NAME
from trainyard.core.model.job import Job
from trainyard.core.model.program import Sharding
from trainyard.protocol.cluster import Assignment, Cluster

FORM_SECONDS = 100
"""Time for a cluster to form: hosts are ready before the start, so only imports take time. A host that hangs before it
joins is replaced within three minutes, which includes the time until its peers presume it lost."""
FORM_SECONDS_WITH_SHARDS = 1800
"""Time for a cluster to form if hosts fetch their share of the data after the start order."""
NOT_GIVEN = ("TF_CONFIG", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", *NO_FILES)
"""Variables of the agent that a program never gets. Packages come only from the image and the job, so Python's own
variables must not name other folders; PYTHONPATH is replaced."""
DEFAULTS = {
    "TF_CPP_MIN_LOG_LEVEL": "1",  # TensorFlow's INFO lines would hide the program's own
    "PYTHONUNBUFFERED": "1",
}
PLACEHOLDER = re.compile(r"\$(\$\{)|\$\{([^}]*)\}")
SHELL = ("bash", "-eo", "pipefail", "-c")
SHELL_WITHOUT_BASH = ("sh", "-ec")
PIPEFAIL = "if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi; "
"""Prefix of a shell's lines in a container image without bash. Not every `sh` has pipefail."""
LEAVE_TRAP = "trap 'code=$?; wait; exit $((code ? code : 75))' TERM; "
"""Prefix of a shell's lines. After SIGTERM, the running command ends first, by its own handler. Then the shell ends
with that command's exit code, or with 75 (restart the program) instead of 0, because lines may remain."""
SHELL_WORD = re.compile(r"(\$?)\$\{([^{}]*)\}")
ASSIGNED = r"(?m)(?:^|[\s;&|(])NAME\+?=|\b(?:for|select|read(?: -\w+)*)\s+(?:\w+\s+)*NAME\b"
"""Assignments to a variable in a shell's lines."""


def environment(
    cluster: Cluster,
    assignment: Assignment,
    job: Job,
    paths: Paths,
    *,
    region: str,
    image: str,
    base: Mapping[str, str],
    secrets: dict[str, str],
    inside: Inside | None = None,
) -> dict[str, str]:
    """Return the program's environment. `base` is the agent's own environment, `secrets` are the values of
    `program.secrets` by variable, `inside` is the program's container if it has one.

    The job's `program.environment` overrides defaults, but not the variables that Trainyard guarantees.
    """
    promised = {
        "TRAINYARD_RUN": cluster.run,
        "TRAINYARD_ATTEMPT": str(cluster.attempt),
        "TRAINYARD_IMAGE": image,
        "TRAINYARD_JOB": str(paths.job),
        "TRAINYARD_STRATEGY": cluster.strategy,
        "TRAINYARD_ROLE": assignment.role,
        "TRAINYARD_INDEX": str(assignment.index),
        "TRAINYARD_WORKERS": str(len(cluster.workers)),
        "TRAINYARD_FORM_SECONDS": str(form_seconds(job)),
        "TRAINYARD_CHECKPOINTS": str(paths.checkpoints),
        "TRAINYARD_CHECKPOINT_STEPS": str(job.checkpoints.steps),
        "TRAINYARD_CHECKPOINT_SECONDS": f"{job.checkpoints.seconds:g}",
        "TRAINYARD_CHECKPOINT_KEEP": str(job.checkpoints.keep),
        "TRAINYARD_TENSORBOARD": str(paths.tensorboard),
        "TRAINYARD_MODEL": str(paths.model),
        "TRAINYARD_METRICS": str(paths.metrics),
        "TRAINYARD_NOTEBOOK": str(paths.notebook),
        "TRAINYARD_PROGRESS": str(paths.progress(cluster.attempt)),
        **_search_paths(job, paths, base, inside),
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        **credentials.environment(paths, has_cat=not (inside and inside.lacks_cat)),
    }
    for name, data in job.data.items():
        variable = f"TRAINYARD_DATA_{name.upper().replace('-', '_')}"
        promised[variable] = str(path_of(name, data, paths))
        promised[f"{variable}_SHARDING"] = data.sharding
    tf_config = frameworks.tf_config(cluster, assignment)
    if tf_config:
        promised["TF_CONFIG"] = tf_config
    known = placeholders(cluster, assignment, job, paths)
    asked = {name: fill(value, known) for name, value in job.program.environment.items()}
    given = {name: base[name] for name in base if name not in NOT_GIVEN}
    if inside:
        given = inside.variables(given)
    ranks = frameworks.rank_variables(cluster, assignment)
    person = {"HOME": str(paths.home), "USER": account.NAME, "LOGNAME": account.NAME}
    return DEFAULTS | given | person | ranks | asked | secrets | promised


def form_seconds(job: Job) -> int:
    """Return how long a process of the job's cluster may wait for the others."""
    sharded = any(data.sharding is Sharding.FILE for data in job.data.values())
    return FORM_SECONDS_WITH_SHARDS if sharded else FORM_SECONDS


def _search_paths(job: Job, paths: Paths, base: Mapping[str, str], inside: Inside | None) -> dict[str, str]:
    """Return PATH and PYTHONPATH."""
    startup, folders = str(paths.startup), search_path(paths, source=job.program.source)
    if inside:
        return {
            "PATH": inside.commands_path(paths),
            "PYTHONPATH": inside.search_path([startup], folders),
        }
    return {
        "PATH": commands_path(paths, base.get("PATH", os.defpath)),
        "PYTHONPATH": os.pathsep.join([startup, *folders]),
    }


def command_line(
    cluster: Cluster, assignment: Assignment, job: Job, paths: Paths, inside: Inside | None = None
) -> list[str]:
    """Return the words of the program: in a container, those that follow `docker run IMAGE`, with its ENTRYPOINT."""
    program, known = job.program, placeholders(cluster, assignment, job, paths)
    line = arguments(program.args, known)
    if program.shell is not None:
        lines = fill_shell(program.shell, known)
        words = [*SHELL, f"{LEAVE_TRAP}{lines}", SHELLS_NAME]
        if inside and not inside.has(SHELL[0]):
            words = [*SHELL_WITHOUT_BASH, f"{PIPEFAIL}{LEAVE_TRAP}{lines}", SHELLS_NAME]
        return [*(inside.words(words) if inside else words), *line]
    if program.command:
        words = [fill(str(word), known) for word in program.command]
        return [*(inside.words(words) if inside else words), *line]
    if inside:
        words = inside.words_of_module(program.module) if program.module else inside.words(())
        inside.check_words(words)
        return [*words, *line]
    return [str(python_for(paths)), "-m", str(program.module), *line]


def arguments(args: Mapping[str, object] | Sequence[object], known: Mapping[str, str]) -> list[str]:
    """Return `program.args` as arguments of a command line: a list unchanged, a mapping as options."""
    if isinstance(args, Mapping):
        return [word for name, value in args.items() for word in option(name, value, known)]
    return [fill(str(value), known) for value in args]


def option(name: str, value: object, known: Mapping[str, str]) -> list[str]:
    """Return `--name value`, only `--name` for true, and nothing for false. A text that begins with a dash becomes
    `--name=value`, so that a parser does not read it as the next option."""
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    text = fill(str(value), known)
    return [f"--{name}={text}"] if isinstance(value, str) and text.startswith("-") else [f"--{name}", text]


def placeholders(cluster: Cluster, assignment: Assignment, job: Job, paths: Paths) -> dict[str, str]:
    """Return the value of each placeholder `${...}`."""
    job_name, task_index = frameworks.task(cluster, assignment)
    known = {
        "role": assignment.role,
        "index": str(assignment.index),
        "run": cluster.run,
        "attempt": str(cluster.attempt),
        "checkpoints": str(paths.checkpoints),
        "tensorboard": str(paths.tensorboard),
        "model": str(paths.model),
        "metrics": str(paths.metrics),
        "workers": str(len(cluster.workers)),
        "job_name": job_name,
        "task_index": str(task_index),
        "worker_hosts": ",".join(cluster.with_port(cluster.trainers)),
        "ps_hosts": ",".join(cluster.with_port(cluster.servers)),
        "chief_host": cluster.with_port((cluster.chief,))[0],
        "hosts": ",".join(each.address for each in cluster.ranked),
        "master_addr": cluster.ranked[0].address,
        "master_port": str(MASTER_PORT),
    }
    if (rank := frameworks.rank(cluster, assignment)) is not None:
        known["rank"] = str(rank)
    return known | {f"data.{name}": str(path_of(name, data, paths)) for name, data in job.data.items()}


def fill(text: str, known: Mapping[str, str]) -> str:
    """Replace every `${name}` in a text; `$${` becomes `${`. Raises ProgramFault for an unknown name."""

    def value_of(found: re.Match[str]) -> str:
        if found[1]:
            return "${"
        if found[2] not in known:
            raise ProgramFault(
                f"{text!r} in program.command, args or environment: ${{{found[2]}}} is not defined; "
                f"use one of {', '.join(sorted(known))}"
            )
        return known[found[2]]

    return PLACEHOLDER.sub(value_of, text)


def fill_shell(text: str, known: Mapping[str, str]) -> str:
    """Replace every placeholder `${name}` of ours in a shell's lines. `$${name}` becomes `${name}`.

    Other names in braces belong to the shell, and so do names that the lines themselves assign."""

    def value_of(found: re.Match[str]) -> str:
        word = found[2]
        if word not in known:
            return found[0]
        if found[1] or re.search(ASSIGNED.replace("NAME", re.escape(word)), text):
            return f"${{{word}}}"
        return known[word]

    return SHELL_WORD.sub(value_of, text)
