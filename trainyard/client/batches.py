"""The job of a batch: predictions of a model for the rows of many files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainyard.client.jobs import source as job_source
from trainyard.client.jobs.source import LocalJob
from trainyard.core.model.batch import Format
from trainyard.core.model.hardware import CPU_TYPES_BY_DEFAULT

if TYPE_CHECKING:
    from trainyard.client.yard import Yard

MOST_CHARACTERS = 40


def job_of(
    yard: Yard,
    model: str,
    source: str,
    *,
    form: Format = Format.JSONL,
    workers: int = 1,
    types: Sequence[str] = (),
    signature: str | None = None,
    name: str | None = None,
) -> LocalJob:
    """Return the job. Raise JobRefused with every fault."""
    folder = source if source.endswith("/") else f"{source}/"
    document: dict[str, Any] = {
        "name": name or f"predict-{model.partition('@')[0]}"[:MOST_CHARACTERS],
        "predict": {"model": model, "source": folder, "format": form.value},
        "cluster": {"workers": workers},
        "hardware": {"instance_types": [*(types or CPU_TYPES_BY_DEFAULT)]},
    }
    if signature:
        document["predict"]["signature"] = signature
    return job_source.check_document(Path(f"{document['name']}.json"), document, yard.destination)
