"""The errors between a user and a yard. Each states what happened, what it means and what to do next."""

# ruff: noqa: N818 - `except RunFailed` reads well, and the name of the base class states that they are errors

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from trainyard.command_line import command_line
from trainyard.exit_codes import ExitCode
from trainyard.values.text import printable
from trainyard.values.validation import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from botocore.exceptions import ClientError

    from trainyard.values.validation import Fault


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FREE_SPACE = "make room on that disk, or name a folder on another"


class YardError(Exception):
    """The base of all errors: `what` happened, what it `means`, and the `next_step` for the user."""

    exit_code: ClassVar[ExitCode] = ExitCode.REFUSED
    """The exit code of `trainyard`."""

    def __init__(self, what: str, means: str, next_step: str) -> None:
        super().__init__(f"{what.rstrip('.')}: {means}. Next: {next_step}")
        self.what, self.means, self.next_step = what, means, next_step


class NoCredentials(YardError):
    """No credentials were found, or AWS did not accept them."""

    exit_code = ExitCode.DENIED


class NoRegion(YardError):
    """No region is set."""

    exit_code = ExitCode.USAGE


class Denied(YardError):
    """The credentials may not do this."""

    exit_code = ExitCode.DENIED


class NoAnswer(YardError):
    """The endpoint cannot be reached."""

    exit_code = ExitCode.NO_ANSWER


class WebhookNotFound(YardError):
    """The yard has no such webhook."""

    exit_code = ExitCode.NOT_FOUND


class WebhookRefused(YardError):
    """A webhook cannot be registered or tried as asked."""


class YardNotFound(YardError):
    """The account and region of the session have no such yard."""

    exit_code = ExitCode.NOT_FOUND


class YardOfAnotherVersion(YardError):
    """The yard was deployed from another release than this client."""


class YardIncomplete(YardError):
    """The yard's own description cannot be read."""


STEPS = {
    errno.ENOENT: "name one that exists",
    errno.EACCES: "name another file or folder, or change its permissions",
    errno.EPERM: "name another file or folder, or change its permissions",
}
"""The next step after an error of a file, by its number."""


class RowUnreadable(YardError):
    """A row of the ledger or a summary lacks a field, or has a field of a wrong type."""


class FileUnreadable(YardError):
    """A file cannot be read or written: a job file, a recipe, or a download."""

    exit_code = ExitCode.USAGE

    @classmethod
    def of(cls, error: OSError) -> Self:
        """Return the error with the system's own message."""
        name = error.filename2 or error.filename
        file = f"{os.fsdecode(name)}: " if isinstance(name, str | bytes | os.PathLike) else ""
        return cls(
            f"{file}{error.strerror or error}",
            "the command needs this file, and has stopped"
            if name
            else "the command could not write all of its output",
            FREE_SPACE
            if error.errno in NO_ROOM
            else STEPS.get(error.errno or 0, "name another file or folder"),
        )


class FileBroken(FileUnreadable):
    """The file's text cannot be parsed. `faults` have the reasons."""

    def __init__(self, faults: tuple[Fault, ...], file: Path) -> None:
        problems = "; ".join(fault.problem for fault in faults)
        super().__init__(
            f"{file} cannot be used: {problems}", "nothing was sent", f"correct {file}, and try again"
        )
        self.faults = faults


class ArchiveBroken(FileUnreadable):
    """The source archive of a run cannot be unpacked, or has a member that is not allowed."""

    exit_code = ExitCode.REFUSED


class FileChanged(YardError):
    """A file changed while it was sent."""


class JobRefused(YardError):
    """The job file has faults; `faults` are all of them."""

    def __init__(self, reason: str, faults: tuple[Fault, ...], file: Path) -> None:
        super().__init__(reason, "so it cannot run, and nothing was sent", f"correct {file}, and try again")
        self.faults = faults


class NotImportable(YardError):
    """The file of another launcher cannot be imported."""

    def __init__(self, problem: str, next_step: str) -> None:
        super().__init__(problem, "no job file was written", next_step)


class KnownToFail(JobRefused):
    """The job file has no fault, but its program fails on every run. `faults` have the reasons."""

    def __init__(self, faults: tuple[Fault, ...], file: Path, change: str = "") -> None:
        what = f"{file}: {'; '.join(fault.problem for fault in faults)}"
        mend = (
            command_line("submit", file, "--set", change)
            if change
            else "correct the program, and submit it again"
        )
        step = f"{mend}; --force runs it as it is"
        YardError.__init__(self, what, "hosts would be paid for a run that fails; nothing was sent", step)
        self.faults = faults


class RunNotFound(YardError):
    """The yard has no such run."""

    exit_code = ExitCode.NOT_FOUND


class ScheduleNotFound(YardError):
    """The yard has no such schedule."""

    exit_code = ExitCode.NOT_FOUND


class ScheduleNotChanged(YardError):
    """The yard has not made or changed a schedule."""


class MetricNotFound(YardError):
    """No program of these runs has reported such a metric."""

    exit_code = ExitCode.NOT_FOUND

    @classmethod
    def of(cls, name: str, known: Sequence[str], *runs: str) -> Self:
        """Return the error for runs with the known metrics."""
        have, few = ("has", "its program has") if len(runs) == 1 else ("have", "their programs have")
        return cls(
            f"{' and '.join(runs)} {have} no metric {printable(name, 80)}{did_you_mean(name, known)}",
            f"there are {', '.join(known)}" if known else f"{few} reported no metric so far",
            command_line("show", runs[0]),
        )


class HolderNotFound(YardError):
    """The account has no role, user or group of this name."""

    exit_code = ExitCode.NOT_FOUND


class HostNotFound(YardError):
    """The yard has no such host."""

    exit_code = ExitCode.NOT_FOUND


class HostNotConnected(YardError):
    """The host exists, but a session on it is not possible now."""


class HostRefused(YardError):
    """The host exists, but it cannot become what was requested."""


class SessionRefused(YardError):
    """The session is not possible as requested."""


class JupyterNotThere(YardError):
    """JupyterLab of the host does not serve."""


class TensorBoardEnded(YardError):
    """TensorBoard on the host has ended."""

    exit_code = ExitCode.RUN_FAILED


class SessionOver(YardError):
    """The session has ended."""

    exit_code = ExitCode.RUN_FAILED


class RunAmbiguous(YardError):
    """Several runs match. `candidates` are their ids, the newest first."""

    exit_code = ExitCode.NOT_FOUND

    def __init__(self, what: str, candidates: tuple[str, ...]) -> None:
        means = "it may be any of " + ", ".join(candidates)
        super().__init__(what, means, "type more of the id")
        self.candidates = candidates


class NotHere(YardError):
    """The request needs something that this computer lacks."""


class RunNotStarted(YardError):
    """An upload started no run."""

    exit_code = ExitCode.NOT_FOUND


class NotPlanned(YardError):
    """The job would be refused, or no capacity pool can hold its hosts. The reasons are all listed."""


class RequestNotAccepted(YardError):
    """The yard did not receive a request."""

    exit_code = ExitCode.NO_ANSWER


class StillRunning(YardError):
    """The run takes longer than the caller wanted to wait."""

    exit_code = ExitCode.RUN_FAILED


class RunFailed(YardError):
    """The run failed, was refused or was stopped. The reason is the run's own."""

    exit_code = ExitCode.RUN_FAILED


class RunRefused(RunFailed):
    """The run was refused before anything was launched, with every reason."""

    exit_code = ExitCode.REFUSED


class RunGoesOn(YardError):
    """The run has not ended: a second run on its checkpoints would damage them."""


class StudyRefused(YardError):
    """The study does not take a request of a user: a point, or its continuation. Every reason is listed."""


class RunFinished(YardError):
    """The run has trained to its end. Continuing from there costs money and trains nothing."""


class HostsRunning(YardError):
    """The yard cannot be deleted while it has hosts."""


class RunsRunning(YardError):
    """The yard cannot be deleted while its workflows run."""


class Ambiguous(YardError):
    """Several things match."""

    exit_code = ExitCode.USAGE


class ImagesRetained(YardError):
    """The yard did not delete images that may still be needed."""


class BucketNotEmptied(YardError):
    """S3 refused to delete objects of a bucket that is to be deleted."""


class StackNotDeleted(YardError):
    """CloudFormation could not delete a stack, with its reason."""


class NothingFound(YardError):
    """The run has no files of a kind, or a filter matches nothing. The error lists the existing ones."""

    exit_code = ExitCode.NOT_FOUND


class NoModel(YardError):
    """The run has left no model."""

    exit_code = ExitCode.NOT_FOUND


class ModelNotFound(YardError):
    """The yard has no such model."""

    exit_code = ExitCode.NOT_FOUND


class ModelNotChanged(YardError):
    """The yard refused a request about a model, or a new version."""


class NotPredicted(YardError):
    """The yard has refused a request for predictions."""


class HostNeeded(NotPredicted):
    """Only a host with TensorFlow runs the version."""

    def __init__(self, what: str, means: str, next_step: str, version: int) -> None:
        super().__init__(what, means, next_step)
        self.version = version


class NotServed(YardError):
    """No host serves the version of a model."""


class CommandBroken(YardError):
    """A fault of the command itself."""

    exit_code = ExitCode.BUG


def from_aws(error: Exception) -> YardError | None:
    """Return the error for an answer of AWS that has no class of its own, or for a broken connection. Return None for
    every other exception."""
    from boto3.exceptions import RetriesExceededError
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        return as_answered(error)
    if isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError | RetriesExceededError):
        return NoAnswer(
            f"the connection broke: {str(error).rstrip('.')}",
            "not everything was sent or fetched",
            "try again; files that have arrived are not transferred again",
        )
    return None


def as_answered(error: ClientError) -> YardError:
    """Return the error for an answer of AWS that has no class of its own."""
    answer = error.response["Error"]
    return YardError(
        f"AWS answered {answer.get('Code', 'an error')} to {error.operation_name}",
        str(answer.get("Message", "no message")).rstrip("."),
        f"correct the cause, or try again; {command_line('doctor')} looks at the account",
    )
