"""What must hold once everything is over, or ought to be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lambdas.core.patrol.verdict import Earlier
from simulation.aws.ec2 import Instance
from simulation.aws.ec2.books import bill
from simulation.aws.stepfunctions import Execution, Status
from simulation.faults import (
    ASKS,
    PERSON,
    BootFault,
    EventFault,
    Fault,
    HostFault,
    InvocationFault,
    PersonFault,
    PoolFault,
    RequestFault,
)
from simulation.hosts.agent.agent import NOT_WIPED
from simulation.invariants import checks
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag
from trainyard.protocol.verdicts import Action, Cause, Word

if TYPE_CHECKING:
    from simulation.scenarios import Scenario
    from simulation.yard import Yard

from simulation.invariants.model import Invariant

PASSES = 4
"""Of patrol, after a run's end: no host of it lives longer."""
MOST_TRANSITIONS = dict.fromkeys(("train", "servers", "evaluator", "elastic", "pool", "rivals"), (15, 14))
"""Of an execution: without any trouble, and for each attempt more."""
JOINS = timedelta(minutes=26)
"""A host has twenty minutes to get ready, and patrol looks each minute; a lost event or a killed function costs some
more."""
RETRIED = 24
"""Transitions that one fault may add by being tried again."""
RIGHTLY_REFUSED = ("BakeUnderWay", "SnapshotRefused", "YardFull")
"""Another bake of the family goes on, the host to be imaged is gone or not there yet, or the yard has as many runs as
it may: nothing was touched."""
PLANNED = "Planned only"
"""Where an execution ends of which nobody wanted a run."""
SOON = timedelta(minutes=10)
TRAINS_ON: frozenset[str] = frozenset(
    {
        str(each)
        for names in (RequestFault, InvocationFault, EventFault, HostFault, BootFault, PoolFault)
        for each in names
    }
    | {str(PersonFault.TERMINATES_HOST), str(PersonFault.UPLOADS_AGAIN)}
) - {
    str(RequestFault.DENIED),
    str(RequestFault.ROWS_DELETED),
    str(HostFault.PROGRAM_ERROR),
    str(HostFault.DISK_FULL),
}
"""Faults of infrastructure, by their names: whichever strikes, the run succeeds where restarts are left."""
DENIED_FOR_SECONDS = "train-"
"""Functions that are called again if a permission is missing."""
OF_A_RUNNING_RUN = "which is still running and replaces its checkpoints"
"""Part of the reason why Admit refuses to resume a run that trains."""
HARMLESS = frozenset(
    {
        EventFault.TWICE,
        EventFault.STORM,
        EventFault.LATE,
        EventFault.VERY_LATE,
        EventFault.MUCH_TOO_LATE,
        HostFault.SAYS_TWICE,
    }
)
"""News that comes late or twice ends no attempt."""
UNKNOWN = frozenset({BootFault.NEVER_REGISTERS, BootFault.REGISTERS_LATE})
"""Nor does a host that trains and that Systems Manager does not know. Builders and other lone hosts need it."""

BILL_SECONDS, BILL_SHARE = 90.0, 0.03
"""How far the bill of a host may be from EC2's: the looks are a minute apart."""


class Ending:
    """One yard at its end. `breaks` is called for each invariant that does not hold, with what was seen."""

    def __init__(self, yard: Yard, scenario: Scenario, breaks: Callable[[Invariant, str], None]) -> None:
        self.yard, self.scenario, self.breaks = yard, scenario, breaks

    @property
    def faults(self) -> Sequence[Fault]:
        return self.yard.plan.faults

    def conclude(self) -> None:
        """Look at every run, then at what is left of all of them."""
        for execution in self.yard.runs():
            self._end_of(execution)
        self._orphans()
        self._stuck()
        self._pool()
        self._warnings()
        for wrong in checks.notices_of_ends(self.yard):
            self.breaks(Invariant.ONE_END, wrong)

    def _warnings(self) -> None:
        """A training host that EC2 warns of is marked as one that goes: that event, too, has its peers save."""
        warned = [fault for fault in self.yard.plan.struck if fault.what == HostFault.WARNED_120]
        in_training = [fault for fault in warned if "progress" in fault.place]
        if len(self.faults) == len(in_training) == 1 and not any(
            "warned" in row for row in self.yard.host_rows()
        ):
            self.breaks(
                Invariant.TRUE_LEDGER, f"EC2 has warned of {in_training[0].place}, and no row says so"
            )

    def _end_of(self, execution: Execution) -> None:
        run = execution.name
        if execution.status is Status.RUNNING:
            self.breaks(
                Invariant.ENDS_IN_TIME, f"{run} still is in {execution.at} after {self.scenario.longest}"
            )
            return
        summary = self.yard.summary(run)
        if summary is None:
            if execution.machine.name.endswith("retire") or execution.at == PLANNED:
                return
            self.breaks(
                Invariant.ONE_END, f"{run} is {execution.status}, and there is no summary that says why"
            )
            return
        well = execution.status is Status.SUCCEEDED
        if well != (summary["outcome"] == "succeeded") and not self._was_stopped_at_its_end():
            self.breaks(
                Invariant.ONE_END, f"{run} is {execution.status}, its summary says {summary['outcome']}"
            )
        if run not in self.scenario.refused:
            self._survival(execution, summary)
        self._cause(execution, summary)
        if run in self.scenario.refused:
            self._refused(execution, summary)
            return
        if self.scenario.gang:
            self._resumed(run, summary)
            self._model(execution, summary)
            self._gangs(run)
            self._stops(execution, summary)
            self._steps(run, summary)
            self._bill(run, summary)
        self._budgets(execution, summary)

    def _refused(self, execution: Execution, summary: Mapping[str, Any]) -> None:
        """A run that resumes one that trains is refused, unless that one has ended by then."""
        if summary["outcome"] != "refused" and len(self.faults) == 0:
            self.breaks(
                Invariant.ONE_CLAIMANT,
                f"{execution.name} ended as {summary['outcome']}: it was to be refused",
            )

    def _resumed(self, run: str, summary: Mapping[str, Any]) -> None:
        """A run that resumes another begins with the last checkpoint that the other one ever had."""
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
        last = max(self.yard.confirmed(earlier[0]), default=0)
        if begins[0] != last:
            self.breaks(
                Invariant.ONE_CLAIMANT,
                f"{run} began at step {begins[0]}; the last checkpoint of {earlier[0]} is of {last}",
            )

    def _stops(self, execution: Execution, summary: Mapping[str, Any]) -> None:
        """A run that somebody has stopped ends soon and says so, unless its program was faster."""
        row = self.yard.run_row(execution.name) or {}
        if summary["outcome"] == "stopped" and execution.name not in self.yard.people.asked_to_stop:
            self.breaks(Invariant.ONE_END, f"{execution.name} says that it was stopped, and nobody has asked")
        if "stopping" not in row or any(fault.what not in ASKS for fault in self.faults):
            return
        if summary["outcome"] not in ("stopped", "succeeded"):
            self.breaks(Invariant.ONE_END, f"{execution.name} was stopped, and ended as {summary['error']}")
        if summary["outcome"] == "stopped" and PERSON not in summary["reason"]:
            self.breaks(Invariant.ONE_END, f"{execution.name} does not say who has stopped it")
        took = datetime.fromisoformat(summary["ended"]) - datetime.fromisoformat(row["stopping"])
        if took > SOON:
            self.breaks(Invariant.ENDS_IN_TIME, f"{execution.name} went on for {took} after it was stopped")

    def _was_asked_to_stop(self, execution: Execution) -> bool:
        return "stopping" in (self.yard.run_row(execution.name) or {})

    def _was_stopped_at_its_end(self) -> bool:
        """By a person, when all that was left to do was to say how it ended."""
        ends = ("Conclude", "Did it succeed", "Succeeded")
        return any(
            fault.what == PersonFault.STOPS_IT and fault.place.partition(" ")[2].partition(" #")[0] in ends
            for fault in self.faults
        )

    def _survival(self, execution: Execution, summary: Mapping[str, Any]) -> None:
        if not all(_is_survived(fault) for fault in self.faults) or len(self.faults) > 3:
            return
        if sum(fault.what == RequestFault.DENIED for fault in self.faults) > 1:
            return  # a permission that stays missing ends the run
        if summary["error"] in RIGHTLY_REFUSED or self._was_asked_to_stop(execution):
            return
        if summary["error"] == "JobRefused" and OF_A_RUNNING_RUN in summary["reason"]:
            return  # the stop of the run that it resumes came late
        hung = sum(fault.what == HostFault.GANG_HANGS for fault in self.faults)
        if summary["error"] == "ProgramHangs" and hung > 1:
            return  # a program that hangs twice before its first step is given up: it would again
        if execution.status is not Status.SUCCEEDED:
            self.breaks(
                Invariant.SURVIVES,
                f"{execution.name} ended as {summary['error']} though nothing but infrastructure failed: "
                f"{str(summary['reason'])[:400]}",
            )

    def _cause(self, execution: Execution, summary: Mapping[str, Any]) -> None:
        """A summary names the true cause, and says what to do about it."""
        if execution.status is Status.SUCCEEDED:
            return
        reason = str(summary.get("reason") or "")
        if len(reason) < 20 or "Trainyard does not know this error" in reason:
            self.breaks(
                Invariant.ONE_END, f"{execution.name} ended as {summary['error']} without a cause: {reason!r}"
            )
        denied = [fault for fault in self.faults if fault.what == RequestFault.DENIED]
        if (
            denied
            and len(self.faults) == len(self.yard.runs()) == 1
            and "may not" not in reason
            and summary["error"] != "AccessDenied"
        ):
            self.breaks(
                Invariant.ONE_END,
                f"{execution.name}: a permission was missing, the summary says {reason[:300]!r}",
            )

    def _model(self, execution: Execution, summary: Mapping[str, Any]) -> None:
        models = self.yard.versions(f"{keys.model(execution.name)}trainyard.json")
        well = execution.status is Status.SUCCEEDED
        # A failed run keeps what its program had finished as its hosts shut down: harmless, and maybe all it has.
        late = [each for each in models if execution.stopped and each.at > execution.stopped]
        if late and (well or len(models) > 1):
            self.breaks(
                Invariant.ONE_MODEL, f"{execution.name} wrote its model after its end, at {late[0].at}"
            )
        if well and not models:
            self.breaks(Invariant.ONE_MODEL, f"{execution.name} succeeded without a model")

    def _gangs(self, run: str) -> None:
        """Each attempt began with as many hosts as it may have, which all know it."""
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
            self._newcomers(run)

    def _newcomers(self, run: str) -> None:
        """A host that was launched for a run joins it, or goes, within the time that it has to get ready."""
        clusters = self.yard.clusters(run).values()
        joined = {each.instance for cluster in clusters for each in cluster.assignments}
        for each in self.yard.ec2.tagged(Tag.RUN, run):
            lived = (each.ended or self.yard.world.now) - each.created
            if each.id not in joined and lived > JOINS:
                self.breaks(
                    Invariant.NO_ORPHAN, f"{each.id} lived for {lived} and joined no attempt of {run}"
                )

    def _steps(self, run: str, summary: Mapping[str, Any]) -> None:
        """Steps only go back to a checkpoint that was confirmed."""
        confirmed = self.yard.confirmed(run)
        for step in summary.get("resume", {}).get("resumed_at", ()):
            if step and step not in confirmed:
                self.breaks(
                    Invariant.TRUE_LEDGER,
                    f"{run} says it resumed at {step}; confirmed are {sorted(confirmed)}",
                )

    def _bill(self, run: str, summary: Mapping[str, Any]) -> None:
        """The summary's hours are EC2's, unless somebody has deleted what the ledger knew."""
        if any(fault.what in (PersonFault.DELETES_ROWS, RequestFault.ROWS_DELETED) for fault in self.faults):
            return
        if self.scenario.name in ("pool", "rivals"):
            return  # a host has several runs: _pool looks at all of them
        seconds, hosts = self.yard.hours(run)
        billed = float(summary["cost"]["hours"]) * 3600
        if abs(billed - seconds) > max(BILL_SECONDS * max(hosts, 1), BILL_SHARE * seconds):
            self.breaks(
                Invariant.TRUE_LEDGER,
                f"{run} is billed for {billed:.0f} s of hosts, EC2 says {seconds:.0f} s of {hosts}",
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
                f"{execution.name} took {attempts} attempts, though {reasons} faults at most can end one each",
            )
        asks = self.yard.gateway.calls["ec2.create_fleet"]
        most = clean + each * (attempts - 1) + RETRIED * len(self.faults) + 3 * asks
        if execution.transitions > most:
            self.breaks(
                Invariant.WITHIN_BUDGETS,
                f"{execution.name} took {execution.transitions} transitions in {attempts} attempts: more than {most}",
            )

    def _orphans(self) -> None:
        now = self.yard.world.now
        allowed = self.scenario.stays
        living = [
            each
            for each in self.yard.ec2.ever.values()
            if each.live or (each.state in ("stopping", "stopped") and Tag.RUN in each.tags)
        ]
        overdue = [
            each
            for each in living
            if now - self.yard.over_since(each) > timedelta(minutes=PASSES) and not self._is_told_of(each)
        ]
        if len(overdue) > allowed:
            names = ", ".join(f"{each.id} ({each.state})" for each in overdue)
            self.breaks(Invariant.NO_ORPHAN, f"{names}: still there {PASSES} patrol passes after the end")

    def _is_told_of(self, instance: Instance) -> bool:
        """Whether somebody was told of a host that no run launched: as shipped, one of which CloudWatch knows nothing
        is not stopped (`unknown_stop_minutes`), since somebody may be at work there."""
        verdict = Earlier.of_tag(instance.tags.get(Tag.VERDICT), self.yard.world.now)
        return (
            Tag.RUN not in instance.tags
            and verdict is not None
            and verdict.word == Word.of(Action.WARN, Cause.UNKNOWN)
            and any(instance.id in notice.text for notice in self.yard.notices.published)
        )

    def _pool(self) -> None:
        """A host is wiped between two runs, and the bills of all together are EC2's, the time in the pool with them."""
        for entry in self.yard.world.trace:
            if entry.what == NOT_WIPED:
                self.breaks(Invariant.WHOLE_GANG, f"{entry.who} {entry.what}")
        rows = self.yard.host_rows()
        for row in rows if self.scenario.pool_minutes else ():
            minutes = self.scenario.pool_minutes or 0
            if too_long := checks.too_long_in_pool(row, minutes, self.yard.world.now):
                self.breaks(Invariant.TRUE_LEDGER, too_long)
        if not any("taken" in row or "pooled" in row for row in rows):
            return
        if any(fault.what in (PersonFault.DELETES_ROWS, RequestFault.ROWS_DELETED) for fault in self.faults):
            return
        now, instances = self.yard.world.now, list(self.yard.ec2.ever.values())
        billed = sum(
            _seconds(row, "launched", "ended", now) + _seconds(row, "pooled", "cooled", now) for row in rows
        )
        seconds = bill(instances, now, gib_month=0.0).hours * 3600
        if abs(billed - seconds) > max(BILL_SECONDS * max(len(rows), 1), BILL_SHARE * seconds):
            self.breaks(
                Invariant.TRUE_LEDGER,
                f"all runs are billed for {billed:.0f} s of hosts, EC2 says {seconds:.0f} s",
            )

    def _stuck(self) -> None:
        for execution in self.yard.stepfunctions.stuck():
            self.breaks(
                Invariant.NEVER_STUCK, f"{execution.label} waits in {execution.at}, and nothing is to come"
            )


def _seconds(row: Mapping[str, Any], begin: str, end: str, now: datetime) -> float:
    if begin not in row:
        return 0.0
    until = datetime.fromisoformat(row[end]) if end in row else now
    return (until - datetime.fromisoformat(row[begin])).total_seconds()


def _is_survived(fault: Fault) -> bool:
    """Return True if the run succeeds though this strikes."""
    of_seconds = fault.what == RequestFault.DENIED and fault.place.startswith(DENIED_FOR_SECONDS)
    return of_seconds or fault.what in TRAINS_ON
