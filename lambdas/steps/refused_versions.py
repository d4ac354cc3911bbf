"""Refuse a version that its host does not serve, because a file was changed or an answer to a golden row differs."""

from dataclasses import replace

from lambdas.aws.dynamodb import models as rows_of
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.core.run.recovery import trouble_of
from lambdas.steps.conclusion import RunEnd
from lambdas.steps.observability import logger
from trainyard.core.model.errors import ModelRefused, ProgramFailed
from trainyard.protocol.ledger.models import MOST_REASON, VersionState
from trainyard.protocol.serving import refusal_in
from trainyard.values.text import printable


def refuse(end: RunEnd) -> RunEnd:
    """Return the end of a run that serves a version. If its program refuses the version, the reason is the program's,
    and the version is refused, so no request starts another host."""
    served, records = end.row.serves if end.row else None, end.records
    row = records.attempts.get(records.run.attempt) if records else None
    trouble = trouble_of(row) if row else None
    if served is None or trouble is None or end.conclusion.error != ProgramFailed.__name__:
        return end
    reason = refusal_in(trouble.exit_code, trouble.tail)
    if reason is None:
        return end
    values = {"state": VersionState.REFUSED.value, "reason": printable(reason, MOST_REASON)}
    try:
        end.ledger.write(rows_of.version_row(served.model, served.number, values, was=VersionState.READY))
    except AlreadyWrittenError:
        logger.info("version %s of %s is not ready any more", served.number, served.model)
    told = f"version {served.number} of {served.model} is refused by its host: {reason}"
    return replace(end, conclusion=replace(end.conclusion, error=ModelRefused.__name__, reason=told))
