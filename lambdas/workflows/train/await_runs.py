"""AwaitRuns: wait for the end of the runs that the job names in `start_after`. Conclude of these runs ends the wait."""

from lambdas import environment
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import dependencies
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Nothing, WaitInput

NEEDS = Needs(
    YardSettings,
    (
        may("answer tasks", "Success"),
        may("use the ledger", "GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem"),
    ),
)


@entry_point
def handler(given: WaitInput) -> Nothing:
    yard = environment.read(YardSettings)
    dependencies.begin(Ledger(yard.table_name), given.run, given.attempt, given.task_token)
    return Nothing()
