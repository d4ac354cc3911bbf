"""Uploaded files, as Admit reads them."""

from lambdas.aws import s3
from trainyard.core.jobfile import document
from trainyard.values.validation import InputFaults


def read(bucket: str, key: str, version: str | None, *, what: str) -> bytes | InputFaults:
    """Return the content of the file, or the fault. A version behind a delete marker is treated as deleted."""
    found = s3.get_start(bucket, key, most=document.MOST_BYTES, version=version)
    if found is None or s3.get_start(bucket, key, most=1) is None:
        return document.deleted_fault(key, version)
    if found.size > document.MOST_BYTES:
        return document.too_big_fault(found.size, source=key, what=what)
    return found.start
