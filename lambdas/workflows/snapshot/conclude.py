"""Conclude of a snapshot: its outcome and its summary. A rule calls it for executions that never reached it."""

from lambdas import settings
from lambdas.aws.ec2 import images
from lambdas.core.edges.conclude import Concluded, ConcludeInput, NotConcluded
from lambdas.core.edges.snapshot import SnapshotConcluded
from lambdas.core.images import snapshot
from lambdas.core.run.records import RunRow
from lambdas.settings import YardSettings
from lambdas.steps import conclusion
from lambdas.steps.conclusion import RunEnd
from lambdas.steps.entry_point import entry_point
from trainyard.values import wire


@entry_point
def handler(given: ConcludeInput) -> SnapshotConcluded | Concluded | NotConcluded:
    yard = settings.read(YardSettings)
    end = conclusion.end_of(yard.table_name, yard.bucket_name, given)
    if not isinstance(end, RunEnd):
        return end
    end, summary = end.agreed(snapshot.summarise(end, image=_made(end.row)))
    end.write()
    return wire.from_json(SnapshotConcluded, summary)


def _made(row: RunRow | None) -> str | None:
    """The image, if there is one to start from: Undo retires any other, be it at this very moment."""
    found = images.find(row.image) if row and row.image else None
    return found.id if found and found.available else None
