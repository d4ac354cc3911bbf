"""The sections of a job file about its hosts: `cluster`, `hardware`, `checkpoints`, `limits`, `after`."""

from collections.abc import Callable

from lambdas.core.model.image import AMI
from lambdas.core.model.instance_types import catalogue, cpu_types, gpu_types
from lambdas.core.model.job import (
    After,
    Checkpoints,
    Chief,
    Cluster,
    Hardware,
    Hosts,
    ImageWhen,
    Limits,
    MarketChoice,
    Role,
    Strategy,
)
from lambdas.core.model.validation import Section, did_you_mean, shown

MOST_HOSTS = 50
MOST_TYPES = 10
MOST_STEPS = 1_000_000_000
IMAGE = rf"{AMI}|(?!ami-)[A-Za-z0-9][A-Za-z0-9_-]{{0,79}}"
"""An image's id, or what a run or a family may be called."""
RUN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}"

CPU_ROLES = (Role.CHIEF, Role.PS, Role.EVALUATOR)
CPU_ROLES_BY_DEFAULT = {Chief.COORDINATOR: (Role.CHIEF, Role.PS), Chief.WORKER: (Role.PS,)}
CPU_TYPES_BY_DEFAULT = ("m7i.xlarge", "m6i.xlarge", "m7a.xlarge")


def cluster(section: Section) -> Cluster:
    why = "only workers train, also with parameter_server, whose chief only coordinates"
    workers = section.count("workers", 1, least=1, most=MOST_HOSTS, because=why)
    servers = section.count("parameter_servers", 0, least=0, most=MOST_HOSTS)
    chief = Chief(section.choice("chief", Chief.COORDINATOR, Chief))
    evaluator = section.flag("evaluator", default=False)
    likely = Strategy.MULTI_WORKER if workers > 1 else Strategy.SINGLE
    strategy = Strategy(section.choice("strategy", likely, Strategy))
    if strategy is Strategy.PARAMETER_SERVER:
        _check_servers(section, workers, servers)
    else:
        needs = f"is allowed with the strategy {Strategy.PARAMETER_SERVER} only, found {strategy}"
        if servers:
            section.fault("parameter_servers", f"{servers} {needs}")
        if section.given("chief"):
            section.fault("chief", f"{chief} {needs}")
        if evaluator:
            section.fault("evaluator", f"true {needs}")
    if strategy in (Strategy.SINGLE, Strategy.MIRRORED) and workers > 1:
        section.fault(
            "workers", f"found {workers}; 1 is allowed with the strategy {strategy} (multi_worker has more)"
        )
    return Cluster(
        strategy=strategy, workers=workers, parameter_servers=servers, chief=chief, evaluator=evaluator
    )


def _check_servers(section: Section, workers: int, servers: int) -> None:
    if servers == 0 and section.values.get("parameter_servers") in (0, None):
        section.fault(
            "parameter_servers",
            f"found {'0' if section.given('parameter_servers') else 'nothing'}; 1 or more are required with the "
            f"strategy {Strategy.PARAMETER_SERVER}: they hold the variables",
        )
    if servers > workers:
        section.fault(
            "parameter_servers",
            f"more parameter servers than workers ({servers} for {workers}); up to {workers} are allowed: each "
            "costs a host, and more than one for every worker has nothing to do",
        )


def hardware(section: Section, cluster: Cluster) -> Hardware:
    default = Hardware()
    market = section.choice("market", default.market, MarketChoice)
    cap = section.number("max_dollars_per_hour", 0.0, most=10_000, unit="dollars for the whole gang")
    types = default.instance_types
    if section.given("instance_types"):
        types = _instance_types(section, "instance_types", least=1, problem=_gpu_type_problem)
    cpu_instance_types, cpu_roles = _cpu_hardware(section, cluster)
    return Hardware(
        instance_types=types,
        cpu_instance_types=cpu_instance_types,
        cpu_roles=cpu_roles,
        market=MarketChoice(market),
        max_dollars_per_hour=cap or None,
        image=section.text(
            "image",
            pattern=IMAGE,
            allowed="the id of an image (ami- and 8 to 17 hex digits), of a run, or the name of a family of images",
        ),
    )


def _cpu_hardware(section: Section, cluster: Cluster) -> tuple[tuple[str, ...], tuple[Role, ...]]:
    """The second gang's types and roles: by default CPU hosts for what needs no GPU, since a GPU under a parameter
    server costs for nothing. An empty list of either means one gang for all."""
    if cluster.strategy is not Strategy.PARAMETER_SERVER:
        for key in ("cpu_instance_types", "cpu_roles"):
            if section.given(key):
                section.fault(
                    key,
                    f"is allowed with the strategy {Strategy.PARAMETER_SERVER} only, found {cluster.strategy}",
                )
        return (), ()
    types: tuple[str, ...] = CPU_TYPES_BY_DEFAULT
    if section.given("cpu_instance_types"):
        types = _instance_types(section, "cpu_instance_types", least=0, problem=_cpu_type_problem)
    default: tuple[Role, ...] = CPU_ROLES_BY_DEFAULT[cluster.chief] if types else ()
    roles = tuple(Role(role) for role in section.choices("cpu_roles", default, CPU_ROLES))
    if roles and not types and section.values["cpu_instance_types"] == []:
        section.fault(
            "cpu_roles", "needs cpu_instance_types, which is empty: all roles are on instance_types"
        )
    if types and not roles and section.given("cpu_instance_types"):
        section.fault(
            "cpu_instance_types", "is for nobody, since cpu_roles is empty; name a role or leave it out"
        )
    return (types, roles) if types and roles else ((), ())


def _instance_types(
    section: Section, key: str, *, least: int, problem: Callable[[object], str | None]
) -> tuple[str, ...]:
    types = section.values[key]
    if not isinstance(types, list | tuple) or not least <= len(types) <= MOST_TYPES:
        found = f"a list of {len(types)}" if isinstance(types, list | tuple) else shown(types)
        section.fault(key, f"found {found}; a list of {least} to {MOST_TYPES} EC2 instance types is allowed")
        return ()
    for index, name in enumerate(types):
        fault = problem(name)
        if fault:
            section.fault(f"{key}[{index}]", fault)
        elif name in types[:index]:
            section.fault(f"{key}[{index}]", f"{shown(name)} stands in the list twice")
    return tuple(str(name) for name in types)


def _gpu_type_problem(name: object) -> str | None:
    if name in gpu_types():
        return None
    if name in cpu_types():
        return (
            f"{shown(name)} has no GPU; it belongs in hardware.cpu_instance_types, for the roles that need none "
            f"(strategy {Strategy.PARAMETER_SERVER})"
        )
    hint = did_you_mean(name, gpu_types())
    return f"{shown(name)} is not an EC2 instance type with an NVIDIA GPU that Trainyard knows{hint}"


def _cpu_type_problem(name: object) -> str | None:
    if name in cpu_types():
        return None
    if isinstance(name, str) and name in catalogue().types:
        return f"{shown(name)} has a GPU, which these roles would pay for and not use; it belongs in instance_types"
    hint = did_you_mean(name, cpu_types())
    return f"{shown(name)} is not an EC2 instance type without a GPU that Trainyard knows{hint}"


def checkpoints(section: Section) -> Checkpoints:
    default = Checkpoints()
    return Checkpoints(
        steps=section.count("steps", default.steps, least=0, most=MOST_STEPS),
        seconds=section.number("seconds", default.seconds, least=1, most=86_400, unit="seconds"),
        keep=section.count("keep", default.keep, least=1, most=100),
        resume=section.text(
            "resume", pattern=RUN, allowed="the id of a run whose last checkpoint is in the bucket"
        ),
    )


def limits(section: Section) -> Limits:
    default = Limits()
    return Limits(
        hours=section.number("hours", default.hours, most=720, unit="hours"),
        dollars=section.number("dollars", default.dollars, most=100_000, unit="dollars"),
        restarts=section.count("restarts", default.restarts, least=0, most=20),
        wait_minutes=section.number("wait_minutes", default.wait_minutes, most=1440, unit="minutes"),
    )


def after(section: Section, market: MarketChoice) -> After:
    hosts = Hosts(section.choice("hosts", Hosts.TERMINATE, Hosts))
    image = ImageWhen(section.choice("image", ImageWhen.NEVER, ImageWhen))
    if hosts is Hosts.STOP and market is not MarketChoice.ON_DEMAND:
        section.fault(
            "hosts",
            f"stop is allowed with hardware.market on_demand only, found {market}: "
            "EC2 can terminate spot hosts of a fleet but never stop them",
        )
    return After(hosts=hosts, image=image)
