"""What can go wrong between a person and a yard: every error says what happened, what it means, what to do now."""

# ruff: noqa: N818 - `except RunFailed` is the sentence; the root's name says that they are errors

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from trainyard.command_line import command_line
from trainyard.exit_codes import ExitCode

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

    from trainyard.values.validation import Fault


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
ENOUGH_ROOM = "make room on that disk, or name a folder on another"


class YardError(Exception):
    """`what` happened, what it `means`, and the `next_step`: what to type or change now."""

    exit_code: ClassVar[ExitCode] = ExitCode.REFUSED
    """What `trainyard` exits with."""

    def __init__(self, what: str, means: str, next_step: str) -> None:
        super().__init__(f"{what.rstrip('.')}: {means}. Next: {next_step}")
        self.what, self.means, self.next_step = what, means, next_step


class NoCredentials(YardError):
    """None were found, or AWS did not accept them."""

    exit_code = ExitCode.DENIED


class NoRegion(YardError):
    """Nothing says in which region the yard is."""

    exit_code = ExitCode.USAGE


class Denied(YardError):
    """The credentials may not do this."""

    exit_code = ExitCode.DENIED


class NoAnswer(YardError):
    """The endpoint cannot be reached."""

    exit_code = ExitCode.NO_ANSWER


class YardNotFound(YardError):
    """There is no such yard where the session points."""

    exit_code = ExitCode.NOT_FOUND


class YardOfAnotherVersion(YardError):
    """The yard was deployed from another release than this client is of."""


class YardIncomplete(YardError):
    """What says where the yard is cannot be understood."""


STEPS = {
    errno.ENOENT: "name one that exists",
    errno.EACCES: "name another file or folder, or change its permissions",
    errno.EPERM: "name another file or folder, or change its permissions",
}
"""What to do about an error of a file, by its number."""


class RowUnreadable(YardError):
    """A row of the ledger lacks a field, or has a field of a wrong type."""


class FileUnreadable(YardError):
    """A file cannot be read or written: a job file, a recipe, or what is fetched."""

    exit_code = ExitCode.USAGE

    @classmethod
    def of(cls, error: OSError) -> Self:
        """Return the system's own words for it."""
        name = error.filename2 or error.filename
        file = f"{os.fsdecode(name)}: " if isinstance(name, str | bytes | os.PathLike) else ""
        return cls(
            f"{file}{error.strerror or error}",
            "the command needs this file, and has stopped"
            if name
            else "what the command writes is not whole",
            ENOUGH_ROOM
            if error.errno in NO_ROOM
            else STEPS.get(error.errno or 0, "name another file or folder"),
        )


class FileBroken(FileUnreadable):
    """The file's text is no document; `faults` say where."""

    def __init__(self, faults: tuple[Fault, ...], file: Path) -> None:
        problems = "; ".join(fault.problem for fault in faults)
        super().__init__(
            f"{file} cannot be used: {problems}", "nothing was sent", f"correct {file}, and try again"
        )
        self.faults = faults


class ArchiveBroken(FileUnreadable):
    """The archive of a run's program cannot be unpacked, or holds what may not be."""

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
    """The job file has no fault, and its program fails on every run; `faults` say why."""

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
    """The yard knows no such run."""

    exit_code = ExitCode.NOT_FOUND


class NobodyFound(YardError):
    """The account knows nobody of that name."""

    exit_code = ExitCode.NOT_FOUND


class HostNotFound(YardError):
    """The yard has no such host."""

    exit_code = ExitCode.NOT_FOUND


class HostNotConnected(YardError):
    """There is such a host, and no session can be had on it now."""


class HostRefused(YardError):
    """There is such a host, and it cannot become what is asked for."""


class SessionRefused(YardError):
    """The session cannot be as it was asked for."""


class JupyterNotThere(YardError):
    """JupyterLab of the host does not serve."""


class TensorBoardEnded(YardError):
    """TensorBoard on the host does not run any more."""

    exit_code = ExitCode.RUN_FAILED


class SessionOver(YardError):
    """There is no such session any more."""

    exit_code = ExitCode.RUN_FAILED


class RunAmbiguous(YardError):
    """Several runs may be meant; `candidates` are their ids, newest first."""

    exit_code = ExitCode.NOT_FOUND

    def __init__(self, what: str, candidates: tuple[str, ...]) -> None:
        means = "it may be each of " + ", ".join(candidates)
        super().__init__(what, means, "type more of the id")
        self.candidates = candidates


class NotHere(YardError):
    """What is asked for needs something on this computer that is not there."""


class RunNotStarted(YardError):
    """An upload started no run."""

    exit_code = ExitCode.NOT_FOUND


class NotPlanned(YardError):
    """The job would be refused, or no pool could have its hosts; with every reason."""


class NotTaken(YardError):
    """The yard was asked for something, and did not hear of it."""

    exit_code = ExitCode.NO_ANSWER


class StillRunning(YardError):
    """The run takes longer than one wanted to wait."""

    exit_code = ExitCode.RUN_FAILED


class RunFailed(YardError):
    """The run has failed, was refused or was stopped; with its own reason."""

    exit_code = ExitCode.RUN_FAILED


class RunRefused(RunFailed):
    """The run was refused before anything was launched; with every reason."""

    exit_code = ExitCode.REFUSED


class RunGoesOn(YardError):
    """The run has not ended: a second run on its checkpoints would damage them."""


class RunFinished(YardError):
    """The run has trained to its end: a run that goes on from there costs money and trains nothing."""


class HostsRunning(YardError):
    """The yard cannot go while it has hosts."""


class RunsRunning(YardError):
    """The yard cannot go while its workflows are at work."""


class Ambiguous(YardError):
    """Several things could be meant."""

    exit_code = ExitCode.USAGE


class ImagesKept(YardError):
    """The yard did not delete images that somebody may need."""


class BucketNotEmptied(YardError):
    """S3 refused to delete objects of a bucket that is to be deleted."""


class StackNotDeleted(YardError):
    """CloudFormation could not delete a stack; with its own reason."""


class NothingFound(YardError):
    """The run, or what a filter chooses, has nothing of that kind; with what there is."""

    exit_code = ExitCode.NOT_FOUND


class NoModel(YardError):
    """The run has left no model."""

    exit_code = ExitCode.NOT_FOUND


class CommandBroken(YardError):
    """The command itself is at fault."""

    exit_code = ExitCode.BUG


def from_aws(error: Exception) -> YardError | None:
    """Return the error for what AWS answered and no other error has a word for, or for a connection that broke in the
    middle of an answer. Return None for every other exception."""
    from boto3.exceptions import RetriesExceededError
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        return as_answered(error)
    if isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError | RetriesExceededError):
        return NoAnswer(
            f"the connection broke: {str(error).rstrip('.')}",
            "not everything was sent or fetched",
            "try again; what has arrived is not sent or fetched again",
        )
    return None


def as_answered(error: ClientError) -> YardError:
    """What AWS says that we have no word for."""
    answer = error.response["Error"]
    return YardError(
        f"AWS answered {answer.get('Code', 'an error')} to {error.operation_name}",
        str(answer.get("Message", "no message")).rstrip("."),
        f"correct the cause, or try again; {command_line('doctor')} looks at the account",
    )
