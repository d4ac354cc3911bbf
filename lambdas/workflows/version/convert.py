"""Convert of version: let a run prepare a SavedModel that lacks the files of an export of the yard.

The state Convert calls this function with its task token, and a rule when an execution that prepares a model has ended.
The state is entered again after `look_seconds` without an answer, so a lost event costs that time."""

from lambdas import environment
from lambdas.aws import s3, states
from lambdas.aws.dynamodb import models as rows_of
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.models import Models
from lambdas.core.models import conversion, origin
from lambdas.core.run.recovery import Trouble
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import model_origins
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Answer, Nothing
from lambdas.steps.observability import logger
from trainyard.core.model.errors import Infrastructure, ModelRefused
from trainyard.protocol import conversions, keys
from trainyard.protocol.conversions import ForVersion
from trainyard.protocol.ledger.models import VersionRow, VersionState
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.requests import model_of
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


class ConvertSettings(YardSettings):
    train_state_machine_arn: str


NEEDS = Needs(
    ConvertSettings,
    (
        may("answer tasks", "Success", "Failure"),
        may("start executions", "train"),
        may("describe executions", "train"),
        may("read and list objects", keys.model(keys.ANY)),
        may("use the ledger", "GetItem", "Query", "UpdateItem"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class ConvertInput:
    """A call by the state Convert, or by the rule for ended executions."""

    run: str
    """The request for the version, or the run that prepares it."""
    task_token: str | None = None
    """The task token of Convert."""


@dataclass(frozen=True, kw_only=True)
class Prepared(Answer):
    """The answer of Convert: the run has prepared the model."""

    kind = "admitted"
    model: str
    number: int
    prefix: str
    """The folder with the prepared model."""


@entry_point
def handler(given: ConvertInput) -> Nothing:
    yard = environment.read(ConvertSettings)
    request = conversions.request_of(given.run) or given.run
    model, ledger = model_of(request) or "", Ledger(yard.table_name)
    rows = Models(yard.table_name).read(model) if model else None
    made = rows.made_by(request) if rows else None
    if made is None or made.state is not VersionState.MAKING:
        logger.info("%s makes no version now", request)
        return Nothing()
    if given.task_token:
        ledger.write(rows_of.version_row(model, made.number, {"task_token": given.task_token}))
    token = given.task_token or made.task_token
    version = ForVersion(request=request)
    row = ledger.run(version.run)
    if token is None:
        logger.info("the state Convert of %s has not begun", request)
    elif row is None:
        _start(yard, version, model, made, token)
    elif row.ended:
        _answer(yard, model, made, row, token)
    return Nothing()


def _start(yard: ConvertSettings, version: ForVersion, model: str, made: VersionRow, token: str) -> None:
    """Start the run. If its execution has ended without one, fail the task."""
    given = conversion.input_of(version, model, made.size)
    machine = yard.train_state_machine_arn
    if states.start(machine, version.run, given):
        return
    if (
        states.is_over(states.execution_of(machine, version.run))
        and Ledger(yard.table_name).run(version.run) is None
    ):
        reason = (
            f"the execution {version.run}, which prepares the model, ended before its run began; try again"
        )
        states.fail(token, Trouble(error=Infrastructure.__name__, reason=reason))


def _answer(yard: ConvertSettings, model: str, made: VersionRow, row: RunRow, token: str) -> None:
    """Answer the task for a run that has ended."""
    try:
        conversion.check_end(row)
        prefix = keys.model(row.run)
        record = model_origins.read_record(yard.bucket_name, prefix)
    except ModelRefused as refused:
        states.fail(token, Trouble(error=ModelRefused.__name__, reason=refused.reason))
        return
    size = sum(size for _, size in s3.list_first_page(yard.bucket_name, prefix))
    values = {**serialization.to_json(origin.describe(record)), "size": size}
    Ledger(yard.table_name).write(rows_of.version_row(model, made.number, values))
    answer = Prepared(
        reason=f"{row.run} has prepared {model} {made.shown}", model=model, number=made.number, prefix=prefix
    )
    states.succeed(token, serialization.to_json(answer))
