"""The gangs of an attempt: which host has which role, which hosts are missing."""

from collections.abc import Iterable
from typing import assert_never

from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Assignment, Gang, Member, Role


def gang_of(job: Job, role: Role) -> Gang:
    """The gang whose hosts have this role."""
    return Gang.CPU if role in job.hardware.cpu_roles else Gang.MAIN


def size(job: Job, gang: Gang) -> int:
    """How many hosts of an attempt are in this gang."""
    return sum(gang_of(job, role) is gang for role in job.roles)


def describe(job: Job, gang: Gang) -> str:
    """The gang by its roles: `the chief and the parameter servers`."""
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
    """How many hosts of the gang to ask for beside those of it that survive, and with how many of them an attempt can
    begin. Nobody is missing where those that survive are enough: a job of min and max workers goes on at once."""
    there = len(set(survivors))
    least = max(0, size(job.at_least, gang) - there)
    return (size(job, gang) - there, least) if least else (0, 0)


def sized(job: Job, hosts: Iterable[Member]) -> Job:
    """The job as an attempt on these hosts has it, its workers a number."""
    if not job.cluster.is_elastic:
        return job
    beside = sum(role not in (Role.CHIEF, Role.WORKER) for role in job.roles)
    return job.with_workers(len(list(hosts)) - beside)


def assignments(job: Job, hosts: Iterable[Member]) -> tuple[Assignment, ...]:
    """An assignment per host, in the order of the job's roles: each takes the next host, by instance id, of its gang.
    Of a job of min and max workers there are as many as there are hosts.

    Sorting makes a retried call give every host the role it had before. Every role counts from 0, but for the workers
    where the chief is worker 0."""
    ordered = sorted(hosts, key=lambda host: host.instance)
    job = sized(job, ordered)
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
