"""Decide whether a folder of the bucket can become a version: its run, its files, and its trainyard.json. Pure.

A check raises ModelRefused if the folder cannot be used."""

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from trainyard.command_line import command_line
from trainyard.core.model import saved_model
from trainyard.core.model.errors import ModelRefused
from trainyard.core.model.job import Job
from trainyard.protocol import keys
from trainyard.protocol.export import RECORD, SAVED_MODEL, ExportRecord
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.protocol.ledger.study import STUDY
from trainyard.protocol.trial import Trial
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count
from trainyard.values.validation import any_of


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A folder of the bucket."""

    prefix: str
    run: str | None = None


def parse(text: str, bucket: str) -> Origin:
    """Return the folder that the user named. The `prefix` is empty if the user named a run."""
    if "://" not in text:
        return Origin(prefix="", run=text)
    if not text.startswith("s3://"):
        raise ModelRefused(
            f"{text} is not an S3 URI; name a run, s3://{bucket}/data/.../, or a local folder such as ./export"
        )
    found, _, path = text.removeprefix("s3://").partition("/")
    if found != bucket:
        raise ModelRefused(
            f"{text} is in another bucket; copy it to the yard's first: aws s3 sync {text.rstrip('/')}/ "
            f"s3://{bucket}/data/by/USER/exports/NAME/"
        )
    parts = path.rstrip("/").split("/")
    if {"", ".", ".."} & set(parts):
        raise ModelRefused(f"{text} has an empty, . or .. part")
    if not path.startswith((keys.RUNS, keys.DATA)) or len(parts) < 2:
        raise ModelRefused(f"{text} is not below {keys.RUNS} or {keys.DATA}, from where versions are copied")
    run = parts[1] if path.startswith(keys.RUNS) else None
    if run and (len(parts) < 3 or parts[2] not in ("model", "outputs")):
        raise ModelRefused(
            f"{text} is not in the model or the outputs of a run; name {keys.model(run)} or a folder of "
            f"{keys.outputs(run)}"
        )
    return Origin(prefix=f"{'/'.join(parts)}/", run=run)


def find_winner(row: RunRow) -> str | None:
    """Return the run whose model a study leaves: the one that retrained the best trial, or the best trial; None for a
    study without one."""
    number = (row.search.retrained or row.search.best) if row.search else None
    return Trial(study=row.run, number=number, submitter="").run if number else None


def check_run(row: RunRow | None, run: str) -> RunRow:
    """Check that the model of the run can become a version, and return the run."""
    if row is None:
        raise ModelRefused(f"the yard has no run {run}; {command_line('ls')} lists the runs")
    if row.kind not in ("train", STUDY):
        raise ModelRefused(f"{run} is a {row.kind} and leaves no model; name a training run")
    if row.ended is None:
        raise ModelRefused(f"{run} has not ended; {command_line('logs', run, '--follow')} follows it")
    if row.kind == STUDY and not find_winner(row):
        raise ModelRefused(f"{run} is a study without a complete trial; name a run that succeeded")
    if row.kind == "train" and row.outcome is not Outcome.SUCCEEDED:
        raise ModelRefused(
            f"{run} ended as {row.outcome}, so its model may be incomplete; name a run that succeeded"
        )
    return row


def find_saved_models(paths: Sequence[str]) -> list[str]:
    """Return the folders with a SavedModel among the outputs of a run. Other hosts and attempts do not count."""
    own = (path for path in paths if not path.startswith("@"))
    return sorted(path.removesuffix(SAVED_MODEL) for path in own if PurePosixPath(path).name == SAVED_MODEL)


def describe_no_model(run: str, outputs: str, folders: Sequence[str], paths: Sequence[str]) -> str:
    """Return why a run has no single model."""
    if folders:
        named = any_of([f"{outputs}{folder}" for folder in folders[: saved_model.MOST_NAMED]])
        return f"{run} has {format_count(len(folders), 'model')}; name one of them: {named}"
    return f"{run} has left no SavedModel: {saved_model.describe_others(dict.fromkeys(paths, 0))}"


def read_record(folder: str, text: bytes | None) -> ExportRecord:
    """Return the content of trainyard.json."""
    try:
        found: Any = json.loads(text or b"")
    except ValueError as error:
        raise ModelRefused(f"{RECORD} of {folder} is not JSON: {error}") from error
    if faults := serialization.faults(ExportRecord, found):
        raise ModelRefused(f"{RECORD} of {folder} is malformed: {'; '.join(faults)}")
    record = serialization.from_json(ExportRecord, found)
    if not record.signatures:
        raise ModelRefused(
            f"{folder} has no signatures, so requests have no named inputs; export it with signatures: "
            "tf.saved_model.save(model, FOLDER, signatures={'serving_default': FUNCTION})"
        )
    return record


def describe(record: ExportRecord) -> dict[str, Any]:
    """Return the values of a version that its trainyard.json determines."""
    lite = record.lite
    return {
        "signatures": record.signatures,
        **({"lite": lite.how, "lite_reason": lite.reason} if lite else {}),
    }


def lineage(row: RunRow) -> dict[str, Any]:
    """Return the values of a version that its run determines, without its metrics."""
    job = serialization.from_json(Job, row.job) if row.job else None
    return {
        "run": row.run,
        "job": row.name,
        "study": row.trial.study if row.trial else None,
        "trial": row.trial.number if row.trial else None,
        "image": row.image_id,
        "data": {name: each.source for name, each in job.data.items()} if job else {},
        "program": (job.program.source or job.program.called) if job else None,
    }


def find_changed(record: ExportRecord, manifest: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files that were changed, added or deleted since the export."""
    paths = {*record.digests, *(manifest if record.digests else ())} - {RECORD}
    return tuple(sorted(path for path in paths if record.digests.get(path) != manifest.get(path)))
