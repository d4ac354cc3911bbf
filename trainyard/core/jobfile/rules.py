"""The rules that concern several keys of a job file: defaults that depend on other keys, and combinations that are
refused."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainyard.core.jobfile import container_rules, data_rules, file_system_rules
from trainyard.core.jobfile.program_command import find_start, key_of_start, launched_by
from trainyard.core.model.gpus import Wanted, all_names, choose
from trainyard.core.model.hardware import CPU_TYPES_BY_DEFAULT, MOST_HOSTS, Chief, Cluster, Hardware
from trainyard.core.model.instance_types import MarketChoice, instance_type
from trainyard.core.model.job import Hosts, ImageWhen, Job
from trainyard.core.model.program import OF_MODELS, PROGRAMS, SHIPPED, Program, Scalar, Tracker
from trainyard.core.model.program_fields import WORDS
from trainyard.protocol.cluster import ASYNCHRONOUS, IN_STEP, SEVERAL_HOSTS, Role, Strategy
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count
from trainyard.values.validation import Fault, any_of, did_you_mean, show_value

CPU_ROLES_BY_DEFAULT = {Chief.COORDINATOR: (Role.CHIEF, Role.PS), Chief.WORKER: (Role.PS,)}
"""The roles on hosts without a GPU by default, with parameter servers."""
GPU_KEYS = ("gpus", "gpu", "gpu_memory")
"""The keys of the section hardware that select instance types by their GPUs."""
STARTS = ("module", "command", "shell")
"""Keys of the section program that select the start. A job has one of them."""
REPLACED = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)")
"""A word to replace, or the `$${` that users write for a plain `${`."""


@dataclass(frozen=True)
class Written:
    """The job file as written, with the faults found so far."""

    document: Mapping[Any, Any]
    faults: list[Fault]

    def value(self, section: str, key: str) -> Any:
        inside = self.document.get(section)
        return inside.get(key) if isinstance(inside, Mapping) else None

    def gives(self, section: str, key: str) -> bool:
        return self.value(section, key) is not None

    def fault(self, path: str, problem: str) -> None:
        self.faults.append(Fault(path, problem))


def settle(job: Job, written: Written) -> Job:
    """Return the job with the defaults that depend on other keys. Conflicts between keys are added to the faults."""
    cluster = _cluster(job.cluster, written)
    job = replace(job, cluster=cluster, hardware=_hardware(job.hardware, cluster, written))
    _check_program(job, written)
    container_rules.check(job, written.value("hardware", "image"), written.fault)
    data_rules.check(job, written.fault)
    file_system_rules.check(job, written.fault)
    _check_hosts(job, written)
    _check_pool(job, written)
    return job


def is_shipped(module: str) -> bool:
    """Return True for a reference program, which a job without `program.source` may name."""
    return module.startswith(SHIPPED) and module.removeprefix(SHIPPED) in (*PROGRAMS, *OF_MODELS)


def _cluster(cluster: Cluster, written: Written) -> Cluster:
    if not written.gives("cluster", "strategy"):
        likely = Strategy.MULTI_WORKER if cluster.most_workers > 1 else Strategy.SINGLE
        cluster = replace(cluster, strategy=likely)
    strategy, workers, servers = cluster.strategy, cluster.most_workers, cluster.parameter_servers
    if cluster.is_elastic and not strategy.trains_in_step:
        written.fault("cluster.workers", _not_elastic(strategy))
        return cluster
    if strategy.is_asynchronous:
        _check_servers(strategy, workers, servers, written)
        return cluster
    needs = _needs_servers(strategy)
    if servers:
        written.fault("cluster.parameter_servers", f"{servers} {needs}")
    if written.gives("cluster", "chief"):
        written.fault("cluster.chief", f"{cluster.chief} {needs}")
    if cluster.evaluator and not strategy.has_several_hosts:
        written.fault("cluster.evaluator", f"true {_needs_several_hosts(strategy)}: it is a host of its own")
    if not strategy.has_several_hosts and workers > 1:
        problem = f"found {workers}; 1 is allowed with the strategy {strategy} ({any_of(IN_STEP)} has more)"
        written.fault("cluster.workers", problem)
    return cluster


def _needs_servers(strategy: Strategy) -> str:
    return f"is allowed with the strategy {any_of(ASYNCHRONOUS)} only, found {strategy}"


def _needs_several_hosts(strategy: Strategy) -> str:
    return f"is allowed with the strategies {' and '.join(SEVERAL_HOSTS)} only, found {strategy}"


def _not_elastic(strategy: Strategy) -> str:
    """Return why such a cluster cannot grow and shrink."""
    why = (
        "its variables are on parameter servers, which are made for one number of workers"
        if strategy.is_asynchronous
        else "it has one host"
    )
    return (
        f"found min and max; one number is allowed with the strategy {strategy}: {why} "
        f"({any_of(IN_STEP)} may have min and max)"
    )


def _check_servers(strategy: Strategy, workers: int, servers: int, written: Written) -> None:
    path, value = "cluster.parameter_servers", written.value("cluster", "parameter_servers")
    if servers == 0 and value in (0, None):
        written.fault(
            path,
            f"found {'nothing' if value is None else '0'}; 1 or more are required with the strategy "
            f"{strategy}: they hold the variables",
        )
    if servers > workers:
        written.fault(
            path,
            f"more parameter servers than workers ({servers} for {workers}); up to {workers} are allowed: each "
            "costs a host, and more than one for every worker has nothing to do",
        )


def _hardware(hardware: Hardware, cluster: Cluster, written: Written) -> Hardware:
    """Return the hardware with the types and roles of the second gang.

    By default, roles that need no GPU run on CPU hosts, because a GPU is wasted on a parameter server. An empty list of
    types or roles means one gang for all. Without GPUs, one gang is enough.
    """
    hardware = _with_types_of_gpus(hardware, written)
    has_gpus = _check_types(hardware, written)
    types_given, roles_given = (
        written.gives("hardware", each) for each in ("cpu_instance_types", "cpu_roles")
    )
    if needs := _no_second_gang(cluster):
        for key, given in (("cpu_instance_types", types_given), ("cpu_roles", roles_given)):
            if given:
                written.fault(f"hardware.{key}", needs)
        return replace(hardware, cpu_instance_types=(), cpu_roles=())
    if cluster.strategy.is_asynchronous:
        usual, is_usual = CPU_ROLES_BY_DEFAULT[cluster.chief], has_gpus
    else:
        usual, is_usual = (Role.EVALUATOR,), roles_given and has_gpus
        _check_that_it_evaluates(hardware.cpu_roles, written)
    types = hardware.cpu_instance_types if types_given else CPU_TYPES_BY_DEFAULT if is_usual else ()
    roles = hardware.cpu_roles if roles_given else usual if types else ()
    if roles and written.value("hardware", "cpu_instance_types") == []:
        problem = "needs cpu_instance_types, which is empty: all roles are on instance_types"
        written.fault("hardware.cpu_roles", problem)
    if types and types_given and not roles:
        problem = "has no effect, because cpu_roles is empty; name a role or remove it"
        written.fault("hardware.cpu_instance_types", problem)
    both = bool(types and roles)
    return replace(hardware, cpu_instance_types=types if both else (), cpu_roles=roles if both else ())


def _with_types_of_gpus(hardware: Hardware, written: Written) -> Hardware:
    """Choose the instance types that have the GPUs which the job names instead of types."""
    asked = [key for key in GPU_KEYS if written.gives("hardware", key)]
    if not asked:
        return hardware
    path = f"hardware.{asked[0]}"
    if written.gives("hardware", "instance_types"):
        written.fault(path, "cannot be combined with hardware.instance_types; one of them is allowed")
        return hardware
    names = (hardware.gpu,) if hardware.gpu else ()
    chosen = choose(Wanted(names, hardware.gpus or 1, hardware.gpu_memory or 0.0))
    if chosen.missing:
        hosts = " Several hosts together have more (cluster.workers)." if (hardware.gpus or 1) > 8 else ""
        problem = (
            f"{'; '.join(chosen.missing)}; nearest: {chosen.first}.{hosts} GPUs are {', '.join(all_names())}"
        )
        written.fault(path, problem)
    return replace(
        hardware, instance_types=chosen.types or hardware.instance_types, gpus=None, gpu=None, gpu_memory=None
    )


def _no_second_gang(cluster: Cluster) -> str | None:
    """Return why the cluster cannot have a second gang on hosts without GPUs, or None if it can."""
    if not cluster.strategy.has_several_hosts:
        return _needs_several_hosts(cluster.strategy)
    if cluster.strategy.is_asynchronous or cluster.evaluator:
        return None
    return (
        f"needs cluster.evaluator: true with the strategy {cluster.strategy}: all its other hosts train, on "
        "hardware.instance_types"
    )


def _check_that_it_evaluates(roles: tuple[Role, ...], written: Written) -> None:
    """Refuse all roles except the evaluator if the hosts train synchronously."""
    if others := [role for role in roles if role is not Role.EVALUATOR]:
        problem = (
            f"found {', '.join(others)}; {Role.EVALUATOR} is allowed with the strategy {any_of(IN_STEP)}: its "
            "chief is worker 0 and trains, and it has no parameter servers"
        )
        written.fault("hardware.cpu_roles", problem)


def _check_types(hardware: Hardware, written: Written) -> bool:
    """Return True if the hosts have GPUs. A list with both kinds is refused: it would never get a GPU, because the
    cheapest pool comes first."""
    sorts = {bool(instance_type(name).gpus): name for name in reversed(hardware.instance_types)}
    if len(sorts) > 1:
        problem = (
            f"{sorts[True]} has GPUs, {sorts[False]} has none; either all types or no type must have GPUs. For "
            "roles that need no GPU (parameter servers, an evaluator), use hardware.cpu_instance_types"
        )
        written.fault("hardware.instance_types", problem)
    return True in sorts


def _check_program(job: Job, written: Written) -> None:
    program = job.program
    _check_start(program, written)
    for tracker in job.track:
        client = tracker.client
        if client.variable not in {*program.environment, *program.secrets}:
            named = (
                "program.secrets" if tracker is Tracker.WANDB else "program.environment or program.secrets"
            )
            problem = f"{tracker} needs {client.variable}, {client.wanted}, in {named}"
            written.fault("track", problem)
    for name in sorted(program.environment.keys() & program.secrets.keys()):
        written.fault(f"program.secrets.{name}", "is also in program.environment; one of them is allowed")
    data = written.document.get("data")
    entries = [str(entry) for entry in data] if isinstance(data, Mapping) else []
    for path, value in _list_templates(program):
        for problem in _word_problems(str(value), entries, job.cluster):
            written.fault(path, problem)
    for problem in _shell_problems(program.shell or "", entries, job.cluster):
        written.fault("program.shell", problem)
    if job.cluster.evaluator and (launcher := launched_by(program)):
        problem = (
            f"true cannot be combined with program.command {launcher}, which starts ranks: an evaluator has no rank, "
            f"and would train everything by itself. Evaluate on rank 0, or start {launcher} in a script that does "
            "something else if TRAINYARD_ROLE is evaluator ([sh, run.sh])"
        )
        written.fault("cluster.evaluator", problem)


def _check_start(program: Program, written: Written) -> None:
    """Require exactly one of module, command and shell."""
    first, *more = [key for key in STARTS if written.gives("program", key)] or [""]
    for key in more:
        problem = f"cannot be combined with program.{first}; a job has one start"
        written.fault(f"program.{key}", problem)
    if not first and not written.gives("program", "container"):
        problem = (
            "is missing; a module (train for `python -m train`), program.command ([torchrun, train.py]) or "
            "program.shell (lines for bash) is required"
        )
        written.fault("program.module", problem)
    if written.gives("program", "source"):
        return
    if program.requirements is not None:
        written.fault("program.requirements", "needs program.source: it names a file inside it")
    if written.gives("program", "container"):
        return  # the module or file may be the image's
    if program.module and not is_shipped(program.module):
        written.fault("program.module", _not_shipped(program.module))
    if file := find_start(program).file:
        name = show_value(file)
        problem = (
            f"{name} is a file of program.source, which is missing; add it, or use a command of the hosts"
        )
        written.fault(key_of_start(program), problem)


def _list_templates(program: Program) -> Iterator[tuple[str, Scalar]]:
    """Yield the path and the value of every text whose words hosts replace."""
    yield from ((f"program.command[{index}]", word) for index, word in enumerate(program.command))
    if isinstance(program.args, Mapping):
        yield from ((f"program.args.{name}", value) for name, value in program.args.items())
    else:
        yield from ((f"program.args[{index}]", word) for index, word in enumerate(program.args))
    yield from ((f"program.environment.{name}", value) for name, value in program.environment.items())


def _not_shipped(module: str) -> str:
    known = [SHIPPED + program for program in PROGRAMS]
    allowed = f"without it only the image's own programs exist: {any_of(known)}"
    return f"{show_value(module)} needs program.source; {allowed}{did_you_mean(module, known)}"


def _word_problems(text: str, entries: list[str], cluster: Cluster) -> Iterator[str]:
    """Yield the faults of the words that hosts cannot replace in a text. `entries` are the data entries of the file."""
    strategy = cluster.strategy
    for found in REPLACED.finditer(text):
        if found[0] == "$${":
            continue
        word, known = found[1], _words(entries)
        if not found[2]:
            yield f'{show_value(text)} has a "${{" without a "}}"; write "$${{" for a plain "${{"'
        elif word == "ps_hosts" and not strategy.is_asynchronous:
            yield f"${{ps_hosts}} needs the strategy {any_of(ASYNCHRONOUS)}, found {strategy}"
        elif word == "rank" and cluster.evaluator:
            yield "${rank} has no value on the evaluator, which has no rank; use ${role} and ${index}"
        elif word not in known:
            yield (
                f'"${{{word}}}" is not a word that hosts replace{did_you_mean(word, known)}; allowed are '
                f'{any_of(known)}; write "$${{" for a plain "${{"'
            )


def _shell_problems(text: str, entries: list[str], cluster: Cluster) -> Iterator[str]:
    """Yield the faults of the words that hosts cannot replace in a shell's lines. Other words in braces are the shell's
    own, except one with a dot, which no shell accepts as a name."""
    for found in REPLACED.finditer(text):
        if found[1] in _words(entries) or re.fullmatch(r"[A-Za-z_]\w*\.[\w.-]*", found[1] or ""):
            yield from _word_problems(found[0], entries, cluster)


def _words(entries: list[str]) -> list[str]:
    """Return every word that a host of this job replaces."""
    return [*WORDS, *(f"data.{name}" for name in entries)]


def _check_pool(job: Job, written: Written) -> None:
    """Check the warm hosts against the number of hosts and the other actions at the end of the run."""
    if not job.pool.keep:
        return
    main = job.gang - job.cpu_gang
    if job.pool.keep > main:
        where = "" if not job.cpu_gang else " on hardware.instance_types"
        written.fault(
            "pool.keep",
            f"found {job.pool.keep}; the run has {format_count(main, 'host')}{where}: keep at most {main}",
        )
    if job.after.hosts is Hosts.STOP:
        written.fault(
            "pool.keep",
            "is allowed only with after.hosts: terminate, found stop: a host stays for the next run or stops",
        )
    if job.after.image is not ImageWhen.NEVER:
        problem = (
            f"is allowed only with after.image: never, found {job.after.image}: imaging uses the host up"
        )
        written.fault("pool.keep", problem)
    if job.policy:
        written.fault(
            "policy",
            "is for hosts that outlive the run; warm hosts end after pool.minutes: with pool.keep no policy is allowed",
        )


def _check_hosts(job: Job, written: Written) -> None:
    market = job.hardware.market
    if job.after.hosts is Hosts.STOP and market is not MarketChoice.ON_DEMAND:
        written.fault(
            "after.hosts",
            f"stop is allowed with hardware.market on_demand only, found {market}: "
            "EC2 can terminate spot hosts of a fleet but never stop them",
        )
    if job.gang > MOST_HOSTS:
        counts = ", ".join(f"{job.roles.count(role)} {role}" for role in Role if role in job.roles)
        written.fault(
            "cluster", f"makes {job.gang} hosts ({counts}); up to {MOST_HOSTS} hosts are allowed together"
        )
