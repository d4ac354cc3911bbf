"""Choose the version that answers a batch. Pure."""

from dataclasses import replace

from lambdas.core.models import registry
from trainyard.core.model.batch import MODEL, Predict
from trainyard.core.model.errors import ModelRefused
from trainyard.core.model.job import Job
from trainyard.core.model.program import Data
from trainyard.protocol import keys
from trainyard.protocol.export import RECORD
from trainyard.protocol.ledger.models import ModelRows, VersionRow
from trainyard.values.validation import any_of, did_you_mean


def find_version(wanted: Predict, rows: ModelRows) -> VersionRow:
    """Return the version with this alias, label or number. Raises ModelRefused if it cannot answer."""
    found = registry.find_named(wanted.version, rows)
    if wanted.signature and wanted.signature not in found.signatures:
        names = [*found.signatures]
        raise ModelRefused(
            f"version {found.shown} of {wanted.name} has no signature {wanted.signature}; it has "
            f"{any_of(names)}{did_you_mean(wanted.signature, names)}"
        )
    return found


def add_version(job: Job, wanted: Predict, version: VersionRow, bucket: str) -> Job:
    """Return the job with the files of the version as data."""
    source = f"s3://{bucket}/{keys.version(wanted.name, version.number)}"
    args = job.program.args
    digest = version.manifest.get(RECORD)
    named = {"model": wanted.name, "version": version.number, **({"record": digest} if digest else {})}
    known = {**args, **named} if isinstance(args, dict) else args
    program = replace(job.program, args=known)
    return replace(job, data={**job.data, MODEL: Data(source=source)}, program=program)
