"""Trials of earlier studies for the sampler of a new one: read from the ledger at its admission, and kept in its
folder, because the earlier study may continue."""

from lambdas.aws import s3
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.studies import Studies
from lambdas.core.study import warm
from trainyard.core.model.job import Job
from trainyard.core.model.study import Study
from trainyard.protocol import keys
from trainyard.protocol.ledger.study import TrialRow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.validation import Fault


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """The trials of all studies in `warm`, with faults and a sentence about each study that fits in part."""

    trials: tuple[TrialRow, ...]
    warnings: tuple[str, ...]
    faults: tuple[Fault, ...]


def read(ledger: Ledger, study: Study) -> WarmStart:
    faults, reports, trials = list[Fault](), list[str](), list[TrialRow]()
    for index, name in enumerate(study.warm):
        row, found = ledger.run(name), Studies(ledger.table).read(name)
        earlier = serialization.from_json(Job, row.job).study if row and row.job and found else None
        if problem := warm.find_fault(study, name, earlier):
            faults.append(Fault(f"study.warm[{index}]", problem))
            continue
        assert earlier, "an unknown study has a fault"
        assert found, "an unknown study has a fault"
        taken = warm.take(study, name, earlier, found.trials)
        trials += taken.trials
        reports += [taken.report] if taken.report else []
    return WarmStart(trials=tuple(trials), warnings=tuple(reports), faults=tuple(faults))


def store(bucket: str, study: str, trials: tuple[TrialRow, ...]) -> None:
    s3.put_json(bucket, keys.warm(study), {"trials": [serialization.to_json(row) for row in trials]})


def load(bucket: str, study: str) -> tuple[TrialRow, ...]:
    document = s3.get_json(bucket, keys.warm(study)) or {"trials": []}
    return tuple(serialization.from_json(TrialRow, row) for row in document["trials"])
