"""The gangs of an attempt: the roles of its hosts, and the hosts that are missing."""

from collections.abc import Iterable
from typing import assert_never

from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Assignment, Gang, Member, Role


def gang_of(job: Job, role: Role) -> Gang:
    """Return the gang of the hosts with this role."""
    return Gang.CPU if role in job.hardware.cpu_roles else Gang.MAIN


def size(job: Job, gang: Gang) -> int:
    """Return the number of hosts of an attempt in this gang."""
    return sum(gang_of(job, role) is gang for role in job.roles)


def describe(job: Job, gang: Gang) -> str:
    """Describe the gang by its roles: `the chief and the parameter servers`."""
    roles = dict.fromkeys(role for role in job.roles if gang_of(job, role) is gang)
    return " and ".join(map(_role_name, roles))


def _role_name(role: Role) -> str:
    match role:
        case Role.CHIEF:
            return "the chief"
        case Role.WORKER:
            return "the workers"
        case Role.PS:
            return "the parameter servers"
        case Role.EVALUATOR:
            return "the evaluator"
    assert_never(role)


def missing(job: Job, gang: Gang, survivors: Iterable[str]) -> tuple[int, int]:
    """Return how many hosts the gang lacks in addition to the remaining hosts, and how many of those an attempt needs
    to begin.

    Return zeros if the remaining hosts are enough: a job with min and max workers then continues at once.
    """
    there = len(set(survivors))
    least = max(0, size(job.at_least, gang) - there)
    return (size(job, gang) - there, least) if least else (0, 0)


def fit_workers(job: Job, hosts: Iterable[Member]) -> Job:
    """Return the job with the number of workers that these hosts provide."""
    if not job.cluster.is_elastic:
        return job
    beside = sum(role not in (Role.CHIEF, Role.WORKER) for role in job.roles)
    return job.with_workers(len(list(hosts)) - beside)


def assignments(job: Job, hosts: Iterable[Member]) -> tuple[Assignment, ...]:
    """Return an assignment for each host, in the order of the job's roles. Each role takes the next host of its gang by
    instance id. A job with min and max workers has as many assignments as hosts.

    Hosts are sorted so that a retried call gives every host the same role. Indices count from 0; workers count from 1
    if the chief is worker 0.
    """
    ordered = sorted(hosts, key=lambda host: host.instance)
    job = fit_workers(job, ordered)
    waiting = {gang: iter([host for host in ordered if host.gang is gang]) for gang in Gang}
    taken: list[Assignment] = []
    for role in job.roles:
        host = next(waiting[gang_of(job, role)], None)
        if host is None:
            continue
        before = sum(assignment.role is role for assignment in taken)
        first = int(role is Role.WORKER and job.cluster.chief_trains)
        taken.append(Assignment(host.instance, role, first + before, host.address or ""))
    return tuple(taken)
