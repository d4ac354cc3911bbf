"""Invariants that must hold once everything has ended or should have."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lambdas.core.patrol.verdict import Earlier
from simulation.aws.ec2 import Instance
from simulation.aws.stepfunctions import Execution, Status
from simulation.faults import (
    DENIALS,
    MISSING,
    PERSON,
    STOP_REQUESTS,
    BootFault,
    EventFault,
    Fault,
    HostFault,
    InvocationFault,
    PersonFault,
    PoolFault,
    RequestFault,
)
from simulation.invariants import bills, checks, hardware, models, orderings, serving, studies
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag
from trainyard.protocol.trial import study_of
from trainyard.protocol.verdicts import Action, Cause, Word

if TYPE_CHECKING:
    from simulation.scenario import Scenario
    from simulation.yard import Yard

from simulation.invariants.model import Invariant

PASSES = 4
"""After this many passes of patrol, all hosts of an ended run must be terminated."""
MOST_TRANSITIONS = dict.fromkeys(("train", "servers", "evaluator", "elastic", "pool", "rivals"), (15, 14))
"""Transitions of an execution without faults, and of each further attempt."""
JOIN_TIME = timedelta(minutes=26)
"""The longest time until a host joins its run: 20 minutes to get ready, a pass of patrol, and a lost event or a
killed function."""
RETRIED = 24
"""Transitions that one fault may add through retries."""
RIGHTLY_REFUSED = ("BakeUnderWay", "SnapshotRefused", "YardFull", "ModelRefused")
"""Errors that touch nothing: another bake of the family is running, the host to snapshot is missing, the yard is
full, or a host finds that its version differs from its golden rows."""
PLANNED = "Planned only"
"""The final state of a dry run."""
STOP_TIME = timedelta(minutes=10)
SURVIVABLE: frozenset[str] = frozenset(
    {
        str(each)
        for names in (RequestFault, InvocationFault, EventFault, HostFault, BootFault, PoolFault)
        for each in names
    }
    | {str(PersonFault.TERMINATES_HOST), str(PersonFault.UPLOADS_AGAIN)}
) - {
    *map(str, MISSING),
    str(RequestFault.ROWS_DELETED),
    str(HostFault.PROGRAM_ERROR),
    str(HostFault.DISK_FULL),
}
"""Faults of infrastructure. The run survives any of them if it has restarts left."""
RETRIED_FUNCTIONS = ("train-", "version-")
"""Prefixes of functions that are called again after a missing permission."""
RUNNING_RUN_REASON = "which is still running and replaces its checkpoints"
"""Part of the reason with which Admit refuses to resume a running run."""
HARMLESS = frozenset(
    {
        EventFault.TWICE,
        EventFault.STORM,
        EventFault.LATE,
        EventFault.VERY_LATE,
        EventFault.MUCH_TOO_LATE,
        HostFault.SENDS_TWICE,
    }
)
"""Late or repeated events, which end no attempt."""
UNKNOWN = frozenset({BootFault.NEVER_REGISTERS, BootFault.REGISTERS_LATE})
"""A training host does not need Systems Manager. Builders and other single hosts do."""


class Ending:
    """Checks of one yard at its end. `breaks` is called for each broken invariant."""

    def __init__(self, yard: Yard, scenario: Scenario, breaks: Callable[[Invariant, str], None]) -> None:
        self.yard, self.scenario, self.breaks = yard, scenario, breaks

    @property
    def faults(self) -> Sequence[Fault]:
        return self.yard.plan.all_faults

    def conclude(self) -> None:
        """Check every run, then everything that is left."""
        for execution in self.yard.runs():
            if not models.is_request(execution):
                self._check_run(execution)
        self._orphans()
        self._stuck()
        for invariant, wrong in itertools.chain(
            bills.check_pool(self.yard, self.scenario),
            studies.check_ends(self.yard),
            orderings.check(self.yard, self.scenario, is_survived=self.only_infrastructure_failed()),
            hardware.check(self.yard, self.scenario),
        ):
            self.breaks(invariant, wrong)
        self._warnings()
        for wrong in checks.check_notifications(self.yard):
            self.breaks(Invariant.ONE_END, wrong)

    def _warnings(self) -> None:
        """Check that a training host is marked when EC2 warns of its interruption, because its peers then save."""
        warned = [fault for fault in self.yard.plan.injected if fault.what == HostFault.WARNED_120]
        in_training = [fault for fault in warned if "progress" in fault.point]
        if len(self.faults) == len(in_training) == 1 and not any(
            "warned" in row for row in self.yard.host_rows()
        ):
            self.breaks(
                Invariant.TRUE_LEDGER,
                f"EC2 has warned of {in_training[0].point}, but the ledger does not record it",
            )

    def _check_run(self, execution: Execution) -> None:
        run = execution.name
        if execution.status is Status.RUNNING:
            self.breaks(
                Invariant.ENDS_IN_TIME, f"{run} is still in {execution.at} after {self.scenario.longest}"
            )
            return
        row = self.yard.run_row(run) or {}
        if "created" in row and "ended" not in row:
            self.breaks(
                Invariant.ONE_END, f"{run} is {execution.status}, but the ledger has it in {row['state']}"
            )
        summary = self.yard.summary(run)
        if summary is None:
            if execution.machine.name.endswith("retire") or execution.at == PLANNED:
                return
            self.breaks(Invariant.ONE_END, f"{run} is {execution.status} without a summary")
            return
        well = execution.status is Status.SUCCEEDED
        was_aborted = execution.status is Status.ABORTED and summary["outcome"] != "succeeded"
        # without its rows, a trial ends like any other run
        has_no_rows = "created" not in row or any(each.what in checks.DELETES for each in self.faults)
        is_forgotten = study_of(run) and not well and has_no_rows
        excused = was_aborted or is_forgotten or self._was_stopped_at_its_end()
        if well != has_to_succeed(run, summary) and not excused:
            self.breaks(
                Invariant.ONE_END, f"{run} is {execution.status}, but its summary says {summary['outcome']}"
            )
        if run not in self.scenario.refused:
            self._survival(execution, summary)
        self._cause(execution, summary)
        if run in self.scenario.refused:
            self._check_refusal(execution, summary)
            return
        if self.scenario.gang and not studies.is_study(execution):
            self._check_resumption(run, summary)
            self._model(execution, summary)
            self._gangs(run)
            self._stops(execution, summary)
            self._steps(run, summary)
            if wrong := bills.check_bill(self.yard, self.scenario, run, summary):
                self.breaks(Invariant.TRUE_LEDGER, wrong)
        self._budgets(execution, summary)

    def _check_refusal(self, execution: Execution, summary: Mapping[str, Any]) -> None:
        """Check that a run is refused if it resumes a running run."""
        if summary["outcome"] != "refused" and len(self.faults) == 0:
            self.breaks(
                Invariant.ONE_CLAIMANT,
                f"{execution.name} ended as {summary['outcome']} instead of refused",
            )

    def _check_resumption(self, run: str, summary: Mapping[str, Any]) -> None:
        """Check that a resumed run starts with the last checkpoint of the earlier run."""
        named = self.scenario.resumed.get(run)
        begins = (summary.get("resume") or {}).get("resumed_at", ())
        earlier = (
            [each.name for each in self.yard.runs() if each.name.startswith(f"{named}-")] if named else []
        )
        if (
            not earlier
            or not begins
            or any(fault.what == PersonFault.DELETES_CHECKPOINTS for fault in self.faults)
        ):
            return
        last = max(self.yard.confirmed_steps(earlier[0]), default=0)
        if begins[0] != last:
            self.breaks(
                Invariant.ONE_CLAIMANT,
                f"{run} began at step {begins[0]}, but the last checkpoint of {earlier[0]} is of step {last}",
            )

    def _stops(self, execution: Execution, summary: Mapping[str, Any]) -> None:
        """Check that a stopped run ends soon as stopped, unless its program was faster."""
        row = self.yard.run_row(execution.name) or {}
        if study_of(execution.name):
            return
        if summary["outcome"] == "stopped" and execution.name not in self.yard.people.stop_requests:
            self.breaks(Invariant.ONE_END, f"{execution.name} ended as stopped, but no user has stopped it")
        if "stopping" not in row or any(fault.what not in STOP_REQUESTS for fault in self.faults):
            return
        own = ("ProgramFailed",) if self.scenario.outcome_of(execution.name) == "failed" else ()
        was_faster = summary["outcome"] == "succeeded" or summary["error"] in ("ModelRefused", *own)
        if summary["outcome"] != "stopped" and not was_faster:
            self.breaks(Invariant.ONE_END, f"{execution.name} was stopped, but ended as {summary['error']}")
        if summary["outcome"] == "stopped" and PERSON not in summary["reason"]:
            self.breaks(Invariant.ONE_END, f"the reason of {execution.name} does not name its user")
        took = datetime.fromisoformat(summary["ended"]) - datetime.fromisoformat(row["stopping"])
        if took > STOP_TIME:
            self.breaks(Invariant.ENDS_IN_TIME, f"{execution.name} ran for {took} after it was stopped")

    def _was_stopped_by_user(self, execution: Execution) -> bool:
        return "stopping" in (self.yard.run_row(execution.name) or {})

    def _was_stopped_at_its_end(self) -> bool:
        """Return True if a user stopped the execution when only its end was left to record."""
        ends = ("Conclude", "Did it succeed", "Succeeded")
        return any(
            fault.what == PersonFault.STOPS_IT and fault.point.partition(" ")[2].partition(" #")[0] in ends
            for fault in self.faults
        )

    def only_infrastructure_failed(self) -> bool:
        """Return True if runs and requests survive the faults of this world."""
        if not all(_is_survived(fault) for fault in self.faults) or len(self.faults) > 3:
            return False
        # a permission that stays missing ends the run
        return sum(fault.what in DENIALS for fault in self.faults) <= 1

    def _survival(self, execution: Execution, summary: Mapping[str, Any]) -> None:
        if not self.only_infrastructure_failed():
            return
        if summary["error"] in RIGHTLY_REFUSED or self._was_stopped_by_user(execution):
            return
        if summary["error"] == "JobRefused" and RUNNING_RUN_REASON in summary["reason"]:
            return  # the run to be resumed was stopped late
        if expected := self.scenario.outcome_of(execution.name):
            if summary["outcome"] != expected:
                wrong = f"{execution.name} ended as {summary['outcome']} instead of {expected}"
                self.breaks(Invariant.SURVIVES, wrong)
            return
        hung = sum(fault.what == HostFault.GANG_HANGS for fault in self.faults)
        if summary["error"] == "ProgramHangs" and hung > 1:
            return  # a program that hangs twice before its first step is given up
        if execution.status is not Status.SUCCEEDED:
            self.breaks(
                Invariant.SURVIVES,
                f"{execution.name} ended as {summary['error']}, although only infrastructure failed: "
                f"{str(summary['reason'])[:400]}",
            )

    def _cause(self, execution: Execution, summary: Mapping[str, Any]) -> None:
        """Check that the summary of a failed run names its cause and how to fix it."""
        if execution.status is Status.SUCCEEDED and summary["outcome"] == "succeeded":
            return
        reason = str(summary.get("reason") or "")
        if len(reason) < 20 or "Trainyard does not know this error" in reason:
            self.breaks(
                Invariant.ONE_END, f"{execution.name} ended as {summary['error']} without a cause: {reason!r}"
            )
        denied = [fault for fault in self.faults if fault.what in MISSING]
        if (
            denied
            and len(self.faults) == len(self.yard.runs()) == 1
            and "may not" not in reason
            and summary["error"] != "AccessDenied"
        ):
            self.breaks(
                Invariant.ONE_END,
                f"{execution.name}: a permission was missing, but the summary says {reason[:300]!r}",
            )

    def _model(self, execution: Execution, summary: Mapping[str, Any]) -> None:
        models = self.yard.versions(f"{keys.model(execution.name)}trainyard.json")
        well = execution.status is Status.SUCCEEDED and summary["outcome"] == "succeeded"
        # A failed run keeps a model that its program finished during shutdown. It is harmless and may be useful.
        late = [each for each in models if execution.stopped and each.at > execution.stopped]
        if late and (well or len(models) > 1):
            self.breaks(
                Invariant.ONE_MODEL, f"{execution.name} wrote its model at {late[0].at}, after its end"
            )
        if well and not models and not serving.is_served(execution.name):
            self.breaks(Invariant.ONE_MODEL, f"{execution.name} succeeded without a model")

    def _gangs(self, run: str) -> None:
        """Check that each attempt began with an allowed number of hosts."""
        jobs = self.yard.versions(keys.job(run))
        wants_evaluator = bool(jobs) and json.loads(jobs[-1].body or b"")["cluster"]["evaluator"]
        for attempt, cluster in self.yard.clusters(run).items():
            count = len(cluster.assignments)
            if len(cluster.evaluators) != wants_evaluator:
                roles = ", ".join(assignment.role for assignment in cluster.assignments)
                self.breaks(Invariant.WHOLE_GANG, f"attempt {attempt} of {run} has {roles}")
            if not (self.scenario.least or self.scenario.gang) <= count <= self.scenario.gang:
                self.breaks(Invariant.WHOLE_GANG, f"attempt {attempt} of {run} began with {count} hosts")
        if self.scenario.least:
            self._joining_hosts(run)

    def _joining_hosts(self, run: str) -> None:
        """Check that every host that was launched for a run joins it, or ends, in time."""
        clusters = self.yard.clusters(run).values()
        joined = {each.instance for cluster in clusters for each in cluster.assignments}
        for each in self.yard.ec2.find_tagged(Tag.RUN, run):
            lived = (each.ended or self.yard.world.now) - each.created
            if each.id not in joined and lived > JOIN_TIME:
                self.breaks(
                    Invariant.NO_ORPHAN, f"{each.id} lived for {lived} without joining an attempt of {run}"
                )

    def _steps(self, run: str, summary: Mapping[str, Any]) -> None:
        """Check that steps only go back to a confirmed checkpoint."""
        confirmed = self.yard.confirmed_steps(run)
        for step in summary.get("resume", {}).get("resumed_at", ()):
            if step and step not in confirmed:
                self.breaks(
                    Invariant.TRUE_LEDGER,
                    f"{run} resumed at step {step}, but the confirmed checkpoints are {sorted(confirmed)}",
                )

    def _budgets(self, execution: Execution, summary: Mapping[str, Any]) -> None:
        budget = MOST_TRANSITIONS.get(self.scenario.name)
        if budget is None:
            return
        clean, each = budget
        rows = summary.get("attempts", ())
        attempts = max(1, len(rows))
        harmless = HARMLESS | UNKNOWN if self.scenario.gang else HARMLESS
        reasons = sum(fault.what not in harmless for fault in self.faults)
        grown = sum(row["ending"] == "resized" for row in rows)
        if attempts > 1 + reasons + grown:
            self.breaks(
                Invariant.WITHIN_BUDGETS,
                f"{execution.name} took {attempts} attempts, but at most {reasons} faults can end an attempt",
            )
        requests = self.yard.gateway.calls["ec2.create_fleet"]
        most = clean + each * (attempts - 1) + RETRIED * len(self.faults) + 3 * requests
        if execution.transitions > most:
            self.breaks(
                Invariant.WITHIN_BUDGETS,
                f"{execution.name} took {execution.transitions} transitions in {attempts} attempts, more than {most}",
            )

    def _orphans(self) -> None:
        now = self.yard.world.now
        living = [
            each
            for each in self.yard.ec2.ever.values()
            if each.live or (each.state in ("stopping", "stopped") and Tag.RUN in each.tags)
        ]
        overdue = [
            each
            for each in living
            if now - self.yard.ended_at(each) > timedelta(minutes=PASSES) and not self._was_reported(each)
        ]
        if len(overdue) > self.scenario.stays:
            names = ", ".join(f"{each.id} ({each.state})" for each in overdue)
            self.breaks(
                Invariant.NO_ORPHAN, f"{names}: not terminated {PASSES} passes of patrol after the end"
            )

    def _was_reported(self, instance: Instance) -> bool:
        """Return True if a notification was sent about a host that no run launched.

        Such a host without metrics is not stopped by default (`unknown_stop_minutes`), because a user may be
        working on it.
        """
        verdict = Earlier.of_tag(instance.tags.get(Tag.VERDICT), self.yard.world.now)
        return (
            Tag.RUN not in instance.tags
            and verdict is not None
            and verdict.word == Word.of(Action.WARN, Cause.UNKNOWN)
            and any(instance.id in notification.text for notification in self.yard.notifications.published)
        )

    def _stuck(self) -> None:
        for execution in self.yard.stepfunctions.stuck():
            self.breaks(
                Invariant.NEVER_STUCK,
                f"{execution.label} waits in {execution.at}, and nothing can end the wait",
            )


def _is_survived(fault: Fault) -> bool:
    """Return True if a run survives this fault."""
    is_retried = fault.what in DENIALS and fault.point.startswith(RETRIED_FUNCTIONS)
    return is_retried or fault.what in SURVIVABLE


def has_to_succeed(run: str, summary: Mapping[str, Any]) -> bool:
    """Return True if the execution of a run with this summary has to succeed. A trial's execution
    succeeds with any outcome."""
    return summary["outcome"] == "succeeded" or study_of(run) is not None
