"""Conclude of a snapshot: the outcome and summary. A rule calls this function for executions that ended before it."""

from lambdas import environment
from lambdas.aws.ec2 import images
from lambdas.core.images import snapshot
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import conclusion
from lambdas.steps.conclusion import Concluded, NotConcluded, RunEnd
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import ConcludeInput
from trainyard.protocol import keys
from trainyard.protocol.ledger.run import RunRow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class SnapshotConcluded(Concluded):
    image: str | None = None
    family: str | None = None
    instance: str | None = None


NEEDS = Needs(
    YardSettings,
    (
        may("write objects", keys.RUNS),
        may("read and list objects", keys.summary(keys.ANY)),
        may("call", "ec2:DescribeImages"),
        may("use the ledger", "Query", "PutItem", "UpdateItem", "DeleteItem"),
    ),
)


@entry_point
def handler(given: ConcludeInput) -> SnapshotConcluded | Concluded | NotConcluded:
    yard = environment.read(YardSettings)
    end = conclusion.end_of(yard.table_name, yard.bucket_name, given)
    if not isinstance(end, RunEnd):
        return end
    end, summary = end.write_summary(snapshot.summarise(end, image=_find_image(end.row)))
    end.write()
    return serialization.from_json(SnapshotConcluded, summary)


def _find_image(row: RunRow | None) -> str | None:
    """Return the image if it is available. Undo retires any other, perhaps at this moment."""
    found = images.find(row.image) if row and row.image else None
    return found.id if found and found.available else None
