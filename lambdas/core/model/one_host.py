"""A job for one host without a program: what bake and launch admit, so that Plan, Launch and pace.py serve them too."""

from lambdas.core.model.job import Hardware, Job, Limits, Program

NO_PROGRAM = Program(module="")
"""Nothing is started on the host: it gets no start order."""
MOST_DOLLARS = 100_000.0
"""The most a job file may allow: the hours and `max_dollars_per_hour` limit such a host."""


def job(name: str, hardware: Hardware, *, hours: float, wait_minutes: float, restarts: int = 0) -> Job:
    """One host of one of `hardware.instance_types`, whose lease ends `hours` after the run's admission.

    `wait_minutes`: how long one search for capacity goes on; `restarts`: how many more hosts may follow the first."""
    limits = Limits(hours=hours, dollars=MOST_DOLLARS, restarts=restarts, wait_minutes=wait_minutes)
    return Job(name=name, program=NO_PROGRAM, hardware=hardware, limits=limits)
