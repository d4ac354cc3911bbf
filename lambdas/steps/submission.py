"""The start of an execution for an uploaded object. Each version of an object starts one execution, from any number of
events."""

import shlex
from pathlib import Path

from lambdas.aws import s3, states
from lambdas.steps.observability import logger, set_log_context
from trainyard.command_line import command_line
from trainyard.core.jobfile import check, document
from trainyard.core.model import tokens
from trainyard.core.model.errors import AccessDenied
from trainyard.protocol import keys
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class UploadedText:
    """The text of an uploaded file; empty for an unreadable file."""

    text: bytes
    denied: str | None = None
    """Why the function may not read the file."""


def read(bucket: str, key: str, version: str | None) -> UploadedText:
    try:
        found = s3.get_start(bucket, key, most=document.MOST_BYTES, version=version)
    except AccessDenied as error:
        logger.error("the run is started and will fail with this reason: %s", error.reason)
        return UploadedText(b"", error.reason)
    return UploadedText(found.start if found else b"")


def start(
    machine: str,
    of_studies: str | None,
    bucket: str,
    key: str,
    uploaded: UploadedText,
    *,
    version: str | None,
    etag: str,
    requester: str | None = None,
    refused: str | None = None,
) -> tuple[str, bool]:
    """Start the execution; return the run and whether it is new. A job file with a study starts an execution of the
    state machine `of_studies`. An unreadable object starts one, too: Admit refuses
    it, and the user finds the reason in the execution. `refused` is the reason for which no schedule was made."""
    text = uploaded.text
    name = check.name_of(text, key=key)
    machine = of_studies if of_studies and check.has_study(text, key=key) else machine
    run = tokens.run_id(name, key=key, version=version or etag)
    set_log_context(run)
    where = "recipe_key" if key.startswith(keys.IMAGES) else "job_key"
    execution_input = {where: key, "version_id": version, "etag": etag, "denied": uploaded.denied}
    execution_input |= {"requester": requester, "refused": refused}
    given = {name: value for name, value in execution_input.items() if value}
    started = states.start(machine, run, given, by_hand=_by_hand(bucket, key))
    logger.info("%s %s", run, "started" if started else "was started before", extra={"key": key})
    return run, started


def _by_hand(bucket: str, key: str) -> str:
    """Return the line that uploads the object again, from any computer."""
    file = key.rpartition("/")[2]
    words = ("image", "bake") if key.startswith(keys.IMAGES) else ("submit",)
    return f"{shlex.join(['aws', 's3', 'cp', f's3://{bucket}/{key}', '.'])} && {command_line(*words, Path(file))}"
