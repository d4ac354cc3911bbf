"""Admit: read and check the job, and what it points to in the bucket; write the run to the ledger."""

from collections.abc import Mapping
from typing import Any

from lambdas import settings
from lambdas.aws import s3
from lambdas.aws.ledger import Ledger, event_row
from lambdas.aws.logbook import Logbook
from lambdas.core.jobfile import check, document, references
from lambdas.core.jobfile.check import Inline, Uploaded
from lambdas.core.jobfile.references import PrefixFacts, SourceFacts
from lambdas.core.model import names
from lambdas.core.model.errors import AccessDenied
from lambdas.core.model.job import InputFaults, Job
from lambdas.core.patrol import budget
from lambdas.settings import AdmitSettings
from lambdas.steps import admission
from lambdas.steps.observability import clock, note


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(AdmitSettings)
    ledger, run = Ledger(yard.table_name), str(event["run"])
    if taken := admission.taken(ledger.run(run), event):
        return {"kind": "refused", "error": "JobRefused", "reason": taken}
    if isinstance(event["input"], Mapping) and event["input"].get("denied"):
        raise AccessDenied(str(event["input"]["denied"]))  # submit's words: it could not read the job file
    source = check.read_input(event["input"])
    misnamed = names.misnamed(run)
    admitted, warnings = (misnamed, ()) if misnamed else _checked(source, yard.bucket_name)
    spent = budget.refusal(Logbook(yard.table_name).money(), yard.monthly_dollars or None, clock())
    refused = admitted.reason if isinstance(admitted, InputFaults) else spent
    entry = note("refused" if refused else "admitted", refused or references.in_words(warnings), at=clock())
    values = {
        "kind": "train",
        "job": None if isinstance(admitted, InputFaults) else admitted.to_json(),
        "job_key": source.key if isinstance(source, Uploaded) else None,
        "warnings": warnings,
    }
    if taken := admission.write(ledger, event, values, event_row(run, entry)):
        return {"kind": "refused", "error": "JobRefused", "reason": taken}
    if isinstance(admitted, Job):
        s3.put_json(yard.bucket_name, f"runs/{run}/job.json", admitted.to_json())
    if isinstance(admitted, Job) and admitted.checkpoints.resume and not refused:
        _go_on_from(admitted.checkpoints.resume, run, yard.bucket_name)
    if refused:
        error = "JobRefused" if isinstance(admitted, InputFaults) else "BudgetSpent"
        return {"kind": "refused", "error": error, "reason": refused}
    return {"kind": "admitted"}


def _checked(
    source: Uploaded | Inline | InputFaults, yard_bucket: str
) -> tuple[Job | InputFaults, tuple[str, ...]]:
    """The job without faults, also without those that only the bucket shows; and what of it will probably fail."""
    match source:
        case InputFaults():
            return source, ()
        case Uploaded():
            parsed = _uploaded(source, yard_bucket)
        case Inline(job=document):
            parsed = check.check(document, source="the execution's input", bucket=yard_bucket)
    if isinstance(parsed, InputFaults):
        return parsed, ()
    findings = references.findings(parsed, _source_facts(parsed), _data_facts(parsed))
    resume = parsed.checkpoints.resume
    fault = references.resume_fault(resume, s3.get_json(yard_bucket, _latest(resume))) if resume else None
    faults = (*findings.faults, fault) if fault else findings.faults
    where = source.key if isinstance(source, Uploaded) else "the execution's input"
    return InputFaults(where, faults) if faults else parsed, findings.warnings


def _go_on_from(earlier: str, run: str, yard_bucket: str) -> None:
    """The run's first checkpoint is the other's last: it stays where it is, and is restored from there."""
    latest = s3.get_json(yard_bucket, _latest(earlier))
    if latest:
        s3.put_json_once(yard_bucket, _latest(run), {**latest, "before": []})


def _latest(run: str) -> str:
    return f"runs/{run}/checkpoints/latest.json"


def _uploaded(source: Uploaded, yard_bucket: str) -> Job | InputFaults:
    """An older version stays readable behind a delete marker: a job file that was deleted is not run."""
    found = s3.get_start(yard_bucket, source.key, most=document.MOST_BYTES, version=source.version_id)
    if found is None or s3.get_start(yard_bucket, source.key, most=1) is None:
        return check.gone(source)
    if found.size > document.MOST_BYTES:
        return InputFaults(source.key, (check.too_big(found.size),))
    return check.parse(found.start, source=source.key, bucket=yard_bucket)


def _source_facts(admitted: Job) -> SourceFacts | None:
    if admitted.program.source is None:
        return None
    found = s3.get_start(*references.split_uri(admitted.program.source), most=references.HEAD_BYTES)
    return SourceFacts(found.size, found.start) if found else None


def _data_facts(admitted: Job) -> dict[str, PrefixFacts]:
    facts = {}
    for name, entry in admitted.data.items():
        sizes = [size for _, size in s3.first_page(*references.split_uri(entry.source)) if size]
        facts[name] = PrefixFacts(len(sizes), sum(sizes))
    return facts
