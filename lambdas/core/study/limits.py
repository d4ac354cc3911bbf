"""The limits of the yard for a study. Pure."""

from lambdas.core.run.slots import YardLimits, setting_command
from trainyard.core.jobfile.study_rules import trials_of
from trainyard.core.model.job import Job
from trainyard.protocol.requests import More
from trainyard.values.quantities import format_count
from trainyard.values.validation import Fault


def faults(job: Job, limits: YardLimits) -> tuple[Fault, ...]:
    """Return what this yard grants no study, however long it waits."""
    study = job.study
    if study is None:
        problem = (
            "is missing; an execution of study needs the section study: submit the job without it as a run"
        )
        return (Fault("study", problem),)
    found = []
    if limits.runs and study.parallel > limits.runs:
        found.append(
            Fault(
                "study.parallel",
                f"found {study.parallel}; this yard runs {limits.runs} at once (most_runs): ask for fewer, or ask the "
                f"operator of the yard to raise it ({setting_command('most_runs', study.parallel)})",
            )
        )
    most = limits.dollars * trials_of(study)
    if limits.dollars and study.limits.dollars > most:
        found.append(
            Fault(
                "study.limits.dollars",
                f"found {study.limits.dollars:g}; this yard allows ${limits.dollars:g} a run, which is ${most:g} for "
                f"{trials_of(study)} trials: ask for less",
            )
        )
    return tuple(found)


def faults_of_continuation(more: More, limits: YardLimits) -> list[str]:
    """Return what this yard grants no continuation of a study."""
    most = limits.dollars * more.trials
    if limits.dollars and more.dollars > most:
        allowed = f"${limits.dollars:g} a run, which is ${most:g} for {format_count(more.trials, 'trial')}"
        return [f"dollars: found {more.dollars:g}; this yard allows {allowed}: ask for less"]
    return []
