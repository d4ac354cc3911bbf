"""The SSM documents of a bake, one state each: install, test, generalize. A call with `explain` returns why one
failed."""

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

from lambdas import environment
from lambdas.aws import s3, ssm
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.core.images import bake
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import waits
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import AttemptInput, Caught, Failure, Nothing
from lambdas.steps.observability import clock
from trainyard.protocol import keys
from trainyard.protocol.ledger.run import RunRow
from trainyard.values.lazy import dataclass


class Step(StrEnum):
    """The SSM documents of a bake, in order."""

    INSTALL = "install"
    TEST = "test"
    GENERALIZE = "generalize"


@dataclass(frozen=True, kw_only=True)
class DocumentInput(AttemptInput):
    """Wait for the SSM document of the step, or explain its failure."""

    step: Step
    task_token: str | None = None
    explain: Failure | None = None
    """The failure to explain."""


class BakeDocumentSettings(YardSettings):
    install_document: str
    test_document: str
    generalize_document: str
    software_uri: str


DOING = {Step.INSTALL: "installing", Step.TEST: "testing", Step.GENERALIZE: "generalizing"}
NEEDS = Needs(
    BakeDocumentSettings,
    (
        may("use the ledger", "Query", "PutItem", "UpdateItem"),
        may("read objects", keys.tests(keys.ANY)),
        may("list objects", keys.RUNS),
        may("run documents", *Step),
        may("answer tasks", "Success"),
        may(
            "call",
            "ssm:DescribeInstanceInformation",
            "ssm:ListCommandInvocations",
            "ssm:GetCommandInvocation",
            "ec2:DescribeInstances",
        ),
    ),
)


@entry_point
def handler(given: DocumentInput) -> Nothing | Caught:
    """Run the SSM document. Raises NotRegistered until the builder is registered in Systems Manager; the workflow then
    retries."""
    yard, run, attempt, step = environment.read(BakeDocumentSettings), given.run, given.attempt, given.step
    ledger, now = Ledger(yard.table_name), clock()
    if given.explain:
        return _explain(yard, ledger.require(run), attempt, step, given.explain.trouble)
    assert given.task_token is not None, "a wait has the token of its task"
    entered = waits.enter(ledger, run, attempt, step, given.task_token, now)
    (builder,) = entered.records.attempts[attempt].hosts
    waits.raise_if_over(entered, builder)
    document, parameters = _document(yard, entered.records.run, step)
    waits.await_command(entered, builder, document, parameters, doing=DOING[step])
    return Nothing()


def _document(yard: BakeDocumentSettings, row: RunRow, step: Step) -> tuple[str, Mapping[str, str]]:
    """Return the SSM document of this step and its parameters."""
    assert row.recipe_sha256 is not None, "an admitted bake has a recipe"
    recipe = {
        "Recipe": f"s3://{yard.bucket_name}/{keys.recipe(row.run)}",
        "Sha256": row.recipe_sha256,
        "Run": row.run,
    }
    match step:
        case Step.INSTALL:
            return yard.install_document, recipe | {"Software": yard.software_uri}
        case Step.TEST:
            return yard.test_document, recipe
        case Step.GENERALIZE:
            return yard.generalize_document, {"Depth": "builder"}
        case _:
            assert_never(step)


def _explain(
    yard: BakeDocumentSettings, records: Records, attempt: int, step: Step, trouble: Trouble
) -> Caught:
    """Return the failure with the failed tests, the last message of the SSM document or its status, and the end of its
    output."""
    row = records.waits.get((attempt, step))
    if row is None or row.command is None:
        return Caught.of(trouble)
    ended = ssm.read_result(row.command, records.attempts[attempt].hosts[0])
    results = s3.get_json(yard.bucket_name, keys.tests(records.run.run)) or {}
    failed = bake.tests_failed(results) if step is Step.TEST else None
    status = f"{trouble.reason or trouble.error} ({ended.status}, exit code {ended.exit_code})"
    reason = failed or bake.find_failure(step, ended.tail) or status
    return Caught.of(Trouble(error=trouble.error, reason=reason, tail=ended.tail, exit_code=ended.exit_code))
