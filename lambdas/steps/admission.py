"""How a run begins, whatever its kind. The ledger has one run of a name, and it is one execution's."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row, held_row, open_row, run_row, slot_given
from lambdas.aws.dynamodb.write import Write
from lambdas.core.run.updates import RunUpdate
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

MOST_SAID = 512


class Decided(Protocol):
    """What an Admit answers."""

    @property
    def kind(self) -> str: ...
    @property
    def reason(self) -> str: ...


def is_its_own(row: RunRow, given: AdmitInput | ConcludeInput) -> bool:
    """Whether the run is the execution's that is given; a rule does not say when that started."""
    return row.is_of(given.execution, given.started)


def raise_denied(given: AdmitInput) -> None:
    """Submit may not have been allowed to read the uploaded file: the execution fails with what it was told."""
    if isinstance(given.input, Mapping) and given.input.get("denied"):
        raise AccessDenied(str(given.input["denied"]))


def told_refusal(given: AdmitInput) -> str | None:
    """Why signal has refused what somebody asked for, in the input of an execution that is to say so."""
    said = given.input.get("refused") if isinstance(given.input, Mapping) else None
    return printable(str(said), MOST_SAID) if said else None


@dataclass(frozen=True)
class Admission:
    """One execution that is about to be admitted; `refusal` is the error of what its user did wrong."""

    ledger: Ledger
    given: AdmitInput
    refusal: type[UsersFault]

    def refused(self, faults: InputFaults) -> Refused:
        return Refused(self.refusal.__name__, faults.reason)

    def misnamed(self) -> InputFaults | None:
        return names.name_fault(self.given.run)

    def taken(self) -> Refused | None:
        """Why this execution cannot have the run of its name; None where nobody has it yet, or it has it itself."""
        row = self.ledger.run(self.given.run)
        if row is None or is_its_own(row, self.given):
            return None
        return Refused(self.refusal.__name__, names.name_taken(row.run, row.execution_arn))

    def write(self, decided: Decided, values: RunUpdate, *rows: Write) -> Refused | None:
        """The run, open until it is concluded, its first rows and what was decided; why not, where another execution
        of the name was faster."""
        try:
            is_open = open_row(self.given.run, values["kind"], self.given.execution)
            self.ledger.write(self._begun(values), is_open, *rows, self._told(decided))
        except AlreadyWrittenError:
            logger.info("%s is in the ledger already", self.given.run)
            return self.taken()
        return None

    def write_claim(
        self, decided: Decided, claim: Claim, values: RunUpdate, given_before: int, *, again: bool
    ) -> None:
        """The same of a run that needs a place, and whether it has it; `again`: the run itself is written.

        Raises AlreadyWrittenError where it was written meanwhile, or where somebody else was given a place."""
        has_it = isinstance(decided, Admitted)
        mine = None if isinstance(decided, Refused) else replace(claim, waits=not has_it)
        rows = [
            run_row(self.given.run, values, waits=not has_it) if again else self._begun(values),
            *self._open(values, mine),
            *((slot_given(given_before),) if has_it else ()),
        ]
        self.ledger.write(*rows, self._told(decided))

    def _open(self, values: RunUpdate, mine: Claim | None) -> list[Write]:
        """The claim of a launch has a row of its own, since its host stays when the run is concluded."""
        run, execution = self.given.run, self.given.execution
        if mine and mine.kind is ClaimKind.HELD:
            return [open_row(run, values["kind"], execution), held_row(mine)]
        return [open_row(run, values["kind"], execution, mine)]

    def _begun(self, values: RunUpdate) -> Write:
        begun: RunUpdate = {
            "state": "Admit",
            "attempt": 1,
            "created": self.given.started,
            "month": serialization.timestamp(self.given.started)[: len("2026-11")],
            "execution_arn": self.given.execution,
            **values,
        }
        return run_row(self.given.run, begun, unless="created")

    def _told(self, decided: Decided) -> Write:
        return event_row(self.given.run, note(decided.kind, decided.reason, at=clock()))


def of_job(job: Job) -> RunUpdate:
    """Return what the row of a run has of its job."""
    return {"job": serialization.to_json(job), "name": job.name, "labels": job.labels}
