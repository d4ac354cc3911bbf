"""Keep of study: delete the models and checkpoints of all trials except the best ones. Metrics and logs stay, and so do
the checkpoints that an open run has resumed."""

from lambdas import environment
from lambdas.aws import s3
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.aws.dynamodb.rows import event_row
from lambdas.aws.dynamodb.studies import Studies
from lambdas.core.study import keeping
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Nothing, RunInput
from lambdas.steps.observability import clock, note
from trainyard.core.model.job import Job
from trainyard.protocol import keys, trial
from trainyard.values import serialization
from trainyard.values.quantities import format_count

NEEDS = Needs(
    YardSettings,
    (
        may("list objects", keys.RUNS),
        may("delete objects", keys.checkpoints(keys.ANY), keys.model(keys.ANY)),
        may("use the ledger", "GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem"),
    ),
    minutes=10,
)


@entry_point
def handler(given: RunInput) -> Nothing:
    yard = environment.read(YardSettings)
    study, _ = trial.part_of(given.run)
    ledger = Ledger(yard.table_name)
    row, found = ledger.run(study), Studies(yard.table_name).read(study)
    section = serialization.from_json(Job, row.job).study if row and row.job else None
    if found is None or section is None:
        return Nothing()
    resumed = _find_resumed(yard.table_name)
    folders = tuple(keeping.deleted_folders(section, study, found.trials, resumed))
    listed = s3.list_keys(yard.bucket_name, f"{keys.RUNS}{study}-")
    deleted = [key for key in listed if key.startswith(folders)]
    s3.delete(yard.bucket_name, deleted)
    if deleted:
        best = ", ".join(str(each.number) for each in keeping.kept_trials(section, found.trials)) or "none"
        files = f"{format_count(len(deleted), 'file')} of models and checkpoints deleted"
        reason = f"{files}; trials that kept their files (study.keep): {best}"
        ledger.write(event_row(study, note("kept", reason, at=clock())))
    return Nothing()


def _find_resumed(table: str) -> set[str]:
    """Return the runs whose checkpoints an open run began with."""
    logbook = Logbook(table)
    names = [each.run for each in logbook.read_open_runs().runs if each.kind == "train"]
    jobs = [serialization.from_json(Job, row.job) for row in logbook.runs(names).values() if row.job]
    return {job.checkpoints.resume for job in jobs if job.checkpoints.resume}
