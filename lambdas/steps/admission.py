"""Admission of a run of any kind. The ledger has one run of each name, and that run belongs to one execution."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Protocol

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row, held_row, open_row, run_row, slot_given
from lambdas.aws.dynamodb.write import Write
from lambdas.core.run import RunUpdate
from lambdas.steps.inputs import AdmitInput, Admitted, ConcludeInput
from lambdas.steps.observability import clock, logger, note
from trainyard.core.model import names
from trainyard.core.model.errors import AccessDenied, Refused, UsersFault
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.claim import Claim, ClaimKind
from trainyard.protocol.ledger.run import RunRow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.text import printable
from trainyard.values.validation import InputFaults

MOST_ARGS, LONGEST_ARG = 40, 100
"""The arguments of a program that a list of runs can show, and their characters."""

MOST_SAID = 512


class Decision(Protocol):
    """The answer of an Admit."""

    @property
    def kind(self) -> str: ...
    @property
    def reason(self) -> str: ...


def is_its_own(row: RunRow, given: AdmitInput | ConcludeInput) -> bool:
    """Return True if the run belongs to this execution. Rules do not pass the start of the execution."""
    return row.is_of(given.execution, given.started)


def raise_denied(given: AdmitInput) -> None:
    """Raise the denial that submit met when it read the uploaded file."""
    if isinstance(given.input, Mapping) and given.input.get("denied"):
        raise AccessDenied(str(given.input["denied"]))


def forwarded_refusal(given: AdmitInput) -> str | None:
    """Return the reason for which signal refused the request of a user, from the input of the execution that reports
    it."""
    said = given.input.get("refused") if isinstance(given.input, Mapping) else None
    return printable(str(said), MOST_SAID) if said else None


@dataclass(frozen=True)
class Admission:
    """An execution that asks to be admitted."""

    ledger: Ledger
    given: AdmitInput
    refusal: type[UsersFault]
    """The error of a refusal, which is the fault of the user."""

    def refuse_or_none(self, faults: InputFaults) -> Refused:
        return Refused(self.refusal.__name__, faults.reason)

    def refuse(self, fault: InputFaults | str, values: RunUpdate) -> Refused:
        """Write the run as refused; return the refusal."""
        refused = (
            self.refuse_or_none(fault)
            if isinstance(fault, InputFaults)
            else Refused(self.refusal.__name__, fault)
        )
        return self.write(refused, values) or refused

    def refuse_misnamed(self) -> InputFaults | None:
        return names.name_fault(self.given.run)

    def refuse_used_name(self) -> Refused | None:
        """Return the refusal if another execution has the run of this name, else None."""
        row = self.ledger.run(self.given.run)
        if row is None or is_its_own(row, self.given):
            return None
        return Refused(self.refusal.__name__, names.describe_used_name(row.run, row.execution_arn))

    def write(self, decided: Decision, values: RunUpdate, *rows: Write) -> Refused | None:
        """Write the rows of the run, which stays open until it is concluded, and the decision. Return the refusal if
        another execution claimed the name first."""
        try:
            is_open = open_row(self.given.run, values["kind"], self.given.execution)
            self.ledger.write(self._first_row(values), is_open, *rows, self._decision_event(decided))
        except AlreadyWrittenError:
            logger.info("%s is in the ledger already", self.given.run)
            return self.refuse_used_name()
        return None

    def write_claim(
        self, decided: Decision, claim: Claim, values: RunUpdate, given_before: int, *, again: bool
    ) -> None:
        """Write a run that needs a slot, with its claim and the decision. `again` means that the run itself is written
        already.

        Raises AlreadyWrittenError if the run was written in the meantime, or if another run was given a slot."""
        has_it = isinstance(decided, Admitted)
        given = clock() if has_it and claim.kind is ClaimKind.TRAIN else None
        mine = None if isinstance(decided, Refused) else replace(claim, waits=not has_it, given=given)
        rows = [
            run_row(self.given.run, values, waits=not has_it) if again else self._first_row(values),
            *self._open_rows(values, mine),
            *((slot_given(given_before),) if has_it else ()),
        ]
        self.ledger.write(*rows, self._decision_event(decided))

    def _open_rows(self, values: RunUpdate, mine: Claim | None) -> list[Write]:
        """Return the rows of an open run. The claim of a dev host has its own row, because the host outlives the
        run."""
        run, execution = self.given.run, self.given.execution
        if mine and mine.kind is ClaimKind.HELD:
            return [open_row(run, values["kind"], execution), held_row(mine)]
        return [open_row(run, values["kind"], execution, mine)]

    def _first_row(self, values: RunUpdate) -> Write:
        begun: RunUpdate = {
            "state": "Admit",
            "attempt": 1,
            "created": self.given.started,
            "month": serialization.timestamp(self.given.started)[: len("2026-11")],
            "execution_arn": self.given.execution,
            **values,
        }
        return run_row(self.given.run, begun, unless="created")

    def _decision_event(self, decided: Decision) -> Write:
        return event_row(self.given.run, note(decided.kind, decided.reason, at=clock()))


def job_values(job: Job) -> RunUpdate:
    """Return the job's values for the row of the run."""
    return {
        "job": serialization.to_json(job),
        "name": job.name,
        "labels": job.labels,
        "args": dict(islice(_shown_args(job), MOST_ARGS)),
    }


def _shown_args(job: Job) -> Iterator[tuple[str, str]]:
    args = job.program.args
    for name, value in args.items() if isinstance(args, Mapping) else ():
        yield name, str(value)[:LONGEST_ARG]
