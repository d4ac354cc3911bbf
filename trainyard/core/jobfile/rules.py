"""What no key of a job file shows alone: defaults that hang on other keys, and things that do not go together."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainyard.core.jobfile.program_command import key_of_start, launched_by, started
from trainyard.core.model.gpus import Wanted, all_names, choose
from trainyard.core.model.hardware import CPU_TYPES_BY_DEFAULT, MOST_HOSTS, Chief, Cluster, Hardware
from trainyard.core.model.instance_types import MarketChoice, instance_type
from trainyard.core.model.job import Hosts, ImageWhen, Job
from trainyard.core.model.program import PROGRAMS, SHIPPED, Program, Scalar, Sharding
from trainyard.core.model.program_fields import WORDS
from trainyard.protocol.cluster import Role, Strategy
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import counted
from trainyard.values.validation import Fault, any_of, did_you_mean, shown

CPU_ROLES_BY_DEFAULT = {Chief.COORDINATOR: (Role.CHIEF, Role.PS), Chief.WORKER: (Role.PS,)}
"""With parameter servers."""
OF_GPUS = ("gpus", "gpu", "gpu_memory")
"""Keys of the section hardware that stand for instance types."""
SEVERAL_HOSTS = tuple(strategy for strategy in Strategy if strategy.has_several_hosts)
OF_SHARDING = "_sharding"
"""What a host adds to a data entry's variable for its sharding."""
STARTS = ("module", "command", "shell")
"""Keys of the section program that say what starts, of which a job has one."""
REPLACED = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)")
"""A word to replace, or the `$${` that stands for a plain `${`."""


@dataclass(frozen=True)
class Written:
    """The file as it was written, and its faults so far."""

    document: Mapping[Any, Any]
    faults: list[Fault]

    def value(self, section: str, key: str) -> Any:
        inside = self.document.get(section)
        return inside.get(key) if isinstance(inside, Mapping) else None

    def gives(self, section: str, key: str) -> bool:
        return self.value(section, key) is not None

    def fault(self, path: str, problem: str) -> None:
        self.faults.append(Fault(path, problem))


def settled(job: Job, written: Written) -> Job:
    """The job with the defaults that hang on other keys; what does not go together is added to the faults."""
    cluster = _cluster(job.cluster, written)
    job = replace(job, cluster=cluster, hardware=_hardware(job.hardware, cluster, written))
    _check_program(job, written)
    _check_data(job, written)
    _check_hosts(job, written)
    _check_pool(job, written)
    return job


def is_shipped(module: str) -> bool:
    """Whether it is one of the reference programs, which a job without `program.source` may name."""
    return module.startswith(SHIPPED) and module.removeprefix(SHIPPED) in PROGRAMS


def _cluster(cluster: Cluster, written: Written) -> Cluster:
    if not written.gives("cluster", "strategy"):
        likely = Strategy.MULTI_WORKER if cluster.most_workers > 1 else Strategy.SINGLE
        cluster = replace(cluster, strategy=likely)
    strategy, workers, servers = cluster.strategy, cluster.most_workers, cluster.parameter_servers
    if cluster.is_elastic and strategy is not Strategy.MULTI_WORKER:
        written.fault("cluster.workers", _not_elastic(strategy))
        return cluster
    if strategy.is_asynchronous:
        _check_servers(workers, servers, written)
        return cluster
    needs = _needs_servers(strategy)
    if servers:
        written.fault("cluster.parameter_servers", f"{servers} {needs}")
    if written.gives("cluster", "chief"):
        written.fault("cluster.chief", f"{cluster.chief} {needs}")
    if cluster.evaluator and not strategy.has_several_hosts:
        written.fault("cluster.evaluator", f"true {_needs_several_hosts(strategy)}: it is a host of its own")
    if not strategy.has_several_hosts and workers > 1:
        problem = f"found {workers}; 1 is allowed with the strategy {strategy} (multi_worker has more)"
        written.fault("cluster.workers", problem)
    return cluster


def _needs_servers(strategy: Strategy) -> str:
    return f"is allowed with the strategy {Strategy.PARAMETER_SERVER} only, found {strategy}"


def _needs_several_hosts(strategy: Strategy) -> str:
    return f"is allowed with the strategies {' and '.join(SEVERAL_HOSTS)} only, found {strategy}"


def _not_elastic(strategy: Strategy) -> str:
    """Why such a cluster cannot grow and shrink."""
    why = (
        "its workers' variables and statistics lie on parameter servers, which are made for one number of workers"
        if strategy.is_asynchronous
        else "it has one host"
    )
    return (
        f"found min and max; one number is allowed with the strategy {strategy}: {why} "
        f"({Strategy.MULTI_WORKER} may have min and max)"
    )


def _check_servers(workers: int, servers: int, written: Written) -> None:
    path, value = "cluster.parameter_servers", written.value("cluster", "parameter_servers")
    if servers == 0 and value in (0, None):
        written.fault(
            path,
            f"found {'nothing' if value is None else '0'}; 1 or more are required with the strategy "
            f"{Strategy.PARAMETER_SERVER}: they hold the variables",
        )
    if servers > workers:
        written.fault(
            path,
            f"more parameter servers than workers ({servers} for {workers}); up to {workers} are allowed: each "
            "costs a host, and more than one for every worker has nothing to do",
        )


def _hardware(hardware: Hardware, cluster: Cluster, written: Written) -> Hardware:
    """With the second gang's types and roles: by default CPU hosts for what needs no GPU, since a GPU under a
    parameter server costs for nothing. An empty list of either means one gang for all; where no host has a GPU, one is
    enough."""
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
        problem = "is for nobody, since cpu_roles is empty; name a role or leave it out"
        written.fault("hardware.cpu_instance_types", problem)
    both = bool(types and roles)
    return replace(hardware, cpu_instance_types=types if both else (), cpu_roles=roles if both else ())


def _with_types_of_gpus(hardware: Hardware, written: Written) -> Hardware:
    """Choose the instance types that have the GPUs which the job names instead of types."""
    asked = [key for key in OF_GPUS if written.gives("hardware", key)]
    if not asked:
        return hardware
    path = f"hardware.{asked[0]}"
    if written.gives("hardware", "instance_types"):
        written.fault(path, "stands beside hardware.instance_types; one of them is allowed")
        return hardware
    names = (hardware.gpu,) if hardware.gpu else ()
    chosen = choose(Wanted(names, hardware.gpus or 1, hardware.gpu_memory or 0.0))
    if chosen.missing:
        problem = f"{'; '.join(chosen.missing)}; nearest: {chosen.first}. GPUs are {', '.join(all_names())}"
        written.fault(path, problem)
    return replace(
        hardware, instance_types=chosen.types or hardware.instance_types, gpus=None, gpu=None, gpu_memory=None
    )


def _no_second_gang(cluster: Cluster) -> str | None:
    """Why none of its hosts can do without a GPU that the others have."""
    if not cluster.strategy.has_several_hosts:
        return _needs_several_hosts(cluster.strategy)
    if cluster.strategy.is_asynchronous or cluster.evaluator:
        return None
    return (
        f"needs cluster.evaluator: true with the strategy {cluster.strategy}: all its other hosts train, on "
        "hardware.instance_types"
    )


def _check_that_it_evaluates(roles: tuple[Role, ...], written: Written) -> None:
    """Of hosts beside those that train in step."""
    if others := [role for role in roles if role is not Role.EVALUATOR]:
        problem = (
            f"found {', '.join(others)}; {Role.EVALUATOR} is allowed with the strategy {Strategy.MULTI_WORKER}: its "
            "chief is worker 0 and trains, and it has no parameter servers"
        )
        written.fault("hardware.cpu_roles", problem)


def _check_types(hardware: Hardware, written: Written) -> bool:
    """Whether its hosts have GPUs. The cheapest pool comes first: a list with both sorts would never get a GPU."""
    sorts = {bool(instance_type(name).gpus): name for name in reversed(hardware.instance_types)}
    if len(sorts) > 1:
        problem = (
            f"{sorts[True]} has GPUs, {sorts[False]} has none; all types are allowed to have some, or none. For the "
            "roles that need no GPU there is hardware.cpu_instance_types (parameter servers, an evaluator)"
        )
        written.fault("hardware.instance_types", problem)
    return True in sorts


def _check_program(job: Job, written: Written) -> None:
    program = job.program
    _check_start(program, written)
    for name in sorted(program.environment.keys() & program.secrets.keys()):
        written.fault(f"program.secrets.{name}", "stands in program.environment too; one of them is allowed")
    data = written.document.get("data")
    entries = [str(entry) for entry in data] if isinstance(data, Mapping) else []
    for path, value in _filled(program):
        for problem in _word_problems(str(value), entries, job.cluster):
            written.fault(path, problem)
    for problem in _shell_problems(program.shell or "", entries, job.cluster):
        written.fault("program.shell", problem)
    if job.cluster.evaluator and (launcher := launched_by(program)):
        problem = (
            f"true does not go with program.command {launcher}, which starts ranks: an evaluator is none, and would "
            f"train the whole of it alone. Evaluate on rank 0, or start {launcher} in a script that does something "
            "else where TRAINYARD_ROLE is evaluator ([sh, run.sh])"
        )
        written.fault("cluster.evaluator", problem)


def _check_start(program: Program, written: Written) -> None:
    """Require exactly one of module, command and shell."""
    first, *more = [key for key in STARTS if written.gives("program", key)] or [""]
    for key in more:
        problem = f"stands beside program.{first}; one of them is allowed: it is all that runs"
        written.fault(f"program.{key}", problem)
    if not first:
        problem = (
            "is missing; a module (train for `python -m train`), program.command ([torchrun, train.py]) or "
            "program.shell (lines for bash) is required"
        )
        written.fault("program.module", problem)
    if written.gives("program", "source"):
        return
    if program.requirements is not None:
        written.fault("program.requirements", "needs program.source: it names a file inside it")
    if program.module and not is_shipped(program.module):
        written.fault("program.module", _not_shipped(program.module))
    if file := started(program).file:
        problem = f"{shown(file)} would be a file of program.source; give one, or a command that hosts have"
        written.fault(key_of_start(program), problem)


def _filled(program: Program) -> Iterator[tuple[str, Scalar]]:
    """Path and value of all in which hosts replace words."""
    yield from ((f"program.command[{index}]", word) for index, word in enumerate(program.command))
    if isinstance(program.args, Mapping):
        yield from ((f"program.args.{name}", value) for name, value in program.args.items())
    else:
        yield from ((f"program.args[{index}]", word) for index, word in enumerate(program.args))
    yield from ((f"program.environment.{name}", value) for name, value in program.environment.items())


def _not_shipped(module: str) -> str:
    known = [SHIPPED + program for program in PROGRAMS]
    allowed = f"without it only the image's own programs exist: {any_of(known)}"
    return f"{shown(module)} needs program.source; {allowed}{did_you_mean(module, known)}"


def _word_problems(text: str, entries: list[str], cluster: Cluster) -> Iterator[str]:
    """What a text asks hosts to fill in that they cannot. `entries` are the data entries that the file names."""
    strategy = cluster.strategy
    for found in REPLACED.finditer(text):
        if found[0] == "$${":
            continue
        word, known = found[1], _words(entries)
        if not found[2]:
            yield f'{shown(text)} has a "${{" that no "}}" ends; write "$${{" for a plain "${{"'
        elif word == "ps_hosts" and not strategy.is_asynchronous:
            yield f"${{ps_hosts}} needs the strategy {Strategy.PARAMETER_SERVER}, found {strategy}"
        elif word == "rank" and cluster.evaluator:
            yield "${rank} stands for nothing on the evaluator, which is no rank; there are ${role} and ${index}"
        elif word not in known:
            yield (
                f'"${{{word}}}" is nothing that a host can fill in{did_you_mean(word, known)}; allowed are '
                f'{any_of(known)}; write "$${{" for a plain "${{"'
            )


def _shell_problems(text: str, entries: list[str], cluster: Cluster) -> Iterator[str]:
    """Return what a shell's lines ask hosts to fill in that they cannot. All other words in braces are the shell's
    own, except one with a dot, which no shell accepts as a name."""
    for found in REPLACED.finditer(text):
        if found[1] in _words(entries) or re.fullmatch(r"[A-Za-z_]\w*\.[\w.-]*", found[1] or ""):
            yield from _word_problems(found[0], entries, cluster)


def _words(entries: list[str]) -> list[str]:
    """Return every word that a host of this job fills in."""
    return [*WORDS, *(f"data.{name}" for name in entries)]


def _check_data(job: Job, written: Written) -> None:
    strategy = job.cluster.strategy
    for name, entry in job.data.items():
        if f"{name}{OF_SHARDING}" in job.data:
            variable = f"TRAINYARD_DATA_{name}{OF_SHARDING}".upper()
            problem = (
                f"maps to the variable {variable}, which says how data.{name} is shared out; give data.{name} or "
                f"data.{name}{OF_SHARDING} another name"
            )
            written.fault(f"data.{name}{OF_SHARDING}", problem)
        if entry.sharding is Sharding.FILE and not strategy.has_several_hosts:
            written.fault(
                f"data.{name}.sharding",
                f"found file, which shares the files out among hosts; the strategy {strategy} has one host: none is "
                f"allowed, or the strategies {any_of(SEVERAL_HOSTS)}",
            )
        if entry.sharding is Sharding.FILE and job.cluster.is_elastic:
            written.fault(
                f"data.{name}.sharding",
                "found file, by which the number of workers decides which examples are a batch, so that a run could "
                "not go on with more or fewer; with cluster.workers.min and max none is allowed",
            )


def _check_pool(job: Job, written: Written) -> None:
    """What waits for another run has nothing of this one's."""
    if not job.pool.keep:
        return
    main = job.gang - job.cpu_gang
    if job.pool.keep > main:
        where = "" if not job.cpu_gang else " on hardware.instance_types"
        written.fault(
            "pool.keep",
            f"found {job.pool.keep}; the run has {counted(main, 'host')}{where}: keep {main} at most",
        )
    if job.after.hosts is Hosts.STOP:
        written.fault(
            "pool.keep",
            "goes with after.hosts: terminate only, found stop: a host stays for the next run or stops",
        )
    if job.after.image is not ImageWhen.NEVER:
        problem = f"goes with after.image: never only, found {job.after.image}: an image takes of its host what it is"
        written.fault("pool.keep", problem)
    if job.policy:
        written.fault(
            "policy",
            "is for hosts that outlive the run; those of a pool end with pool.minutes: with pool.keep none is allowed",
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
