"""Find the origin of a version in the bucket, and check it."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from lambdas.aws import s3
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.core.models import origin
from lambdas.environment import YardSettings
from lambdas.needs import may
from lambdas.steps.observability import logger
from trainyard.core.model import saved_model
from trainyard.core.model.errors import ModelRefused
from trainyard.protocol import keys
from trainyard.protocol.export import RECORD, ExportRecord
from trainyard.protocol.ledger.run import RunRow
from trainyard.values.lazy import dataclass

READ = (keys.model(keys.ANY), keys.outputs(keys.ANY), keys.DATA)
"""The folders that versions are copied from."""
GRANTS = (may("read and list objects", *READ, keys.metrics(keys.ANY)),)


@dataclass(frozen=True, kw_only=True)
class CheckedOrigin:
    """A folder that can be copied, with its description."""

    prefix: str
    size: int
    record: ExportRecord | None
    """None if a run must prepare the model first."""
    run: RunRow | None
    metrics: Mapping[str, float]


def check_origin(yard: YardSettings, text: str) -> CheckedOrigin:
    """Return the origin that the user named. Raise ModelRefused if it cannot become a version."""
    found, bucket = origin.parse(text, yard.bucket_name), yard.bucket_name
    run = _check_run(Ledger(yard.table_name), found.run) if found.run else None
    prefix = found.prefix or _find_folder(bucket, run.run if run else "")
    listed = s3.list_sizes(bucket, prefix, most=saved_model.MOST_FILES + 1)
    files = {key.removeprefix(prefix): size for key, size in listed if not key.endswith("/")}
    folder = f"s3://{bucket}/{prefix}"
    saved_model.check_files(folder, files or _find_file(bucket, prefix.rstrip("/")))
    return CheckedOrigin(
        prefix=prefix,
        size=sum(files.values()),
        record=read_record(bucket, prefix) if saved_model.is_prepared(files) else None,
        run=run,
        metrics=_read_metrics(bucket, run) if run else {},
    )


def _find_file(bucket: str, key: str) -> dict[str, int]:
    """Return the object that the user named instead of a folder, with its size, if there is one."""
    found = s3.list_sizes(bucket, key, most=1)
    return {PurePosixPath(name).name: size for name, size in found if name == key}


def read_record(bucket: str, prefix: str) -> ExportRecord:
    """Return trainyard.json of a folder. Raises ModelRefused if it describes no usable model."""
    return origin.read_record(f"s3://{bucket}/{prefix}", s3.get(bucket, f"{prefix}{RECORD}"))


def _check_run(ledger: Ledger, name: str) -> RunRow:
    """Return the run, or the run whose model the study leaves."""
    run = origin.check_run(ledger.run(name), name)
    winner = origin.find_winner(run)
    return origin.check_run(ledger.run(winner), winner) if winner else run


def _find_folder(bucket: str, run: str) -> str:
    """Return the folder of the run's only model: `model/`, or a folder of its outputs."""
    if s3.list_sizes(bucket, keys.model(run), most=1):
        return keys.model(run)
    prefix = keys.outputs(run)
    paths = [key.removeprefix(prefix) for key in s3.list_keys(bucket, prefix)]
    folders = origin.find_saved_models(paths)
    if len(folders) == 1:
        return f"{prefix}{folders[0]}"
    raise ModelRefused(origin.describe_no_model(run, f"s3://{bucket}/{prefix}", folders, paths))


def _read_metrics(bucket: str, run: RunRow) -> dict[str, float]:
    try:
        found = s3.get_json(bucket, keys.metrics(run.run)) or {}
    except ValueError as error:
        logger.warning("metrics.json of %s cannot be read: %s", run.run, error)
        return {}
    return {name: float(value) for name, value in found.items() if type(value) in (int, float)}
