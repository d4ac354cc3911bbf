"""The one place where an error becomes lines and an exit code."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trainyard.cli.options import Options, SettingsError

if TYPE_CHECKING:
    from trainyard.client import YardError


class Code(IntEnum):
    """What the command exits with."""

    DONE = 0
    RUN_FAILED = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    DENIED = 5
    NO_ANSWER = 69
    """Neither AWS nor the local cloud answered (sysexits' EX_UNAVAILABLE)."""
    BUG = 70
    """A fault of the command itself (EX_SOFTWARE)."""
    INTERRUPTED = 130


CODES = {
    "RunFailed": Code.RUN_FAILED,
    "StillRunning": Code.RUN_FAILED,
    "NoRegion": Code.USAGE,
    "FileUnreadable": Code.USAGE,
    "FileBroken": Code.USAGE,
    "ArchiveBroken": Code.REFUSED,
    "FileChanged": Code.REFUSED,
    "RunRefused": Code.REFUSED,
    "NotPlanned": Code.REFUSED,
    "JobRefused": Code.REFUSED,
    "NotImportable": Code.REFUSED,
    "KnownToFail": Code.REFUSED,
    "RunGoesOn": Code.REFUSED,
    "RunFinished": Code.REFUSED,
    "HostsRunning": Code.REFUSED,
    "RunsRunning": Code.REFUSED,
    "StackNotDeleted": Code.REFUSED,
    "BucketNotEmptied": Code.REFUSED,
    "ImagesKept": Code.REFUSED,
    "Ambiguous": Code.USAGE,
    "YardIncomplete": Code.REFUSED,
    "YardOfAnotherVersion": Code.REFUSED,
    "NotHere": Code.REFUSED,
    "RunNotFound": Code.NOT_FOUND,
    "NobodyFound": Code.NOT_FOUND,
    "HostNotFound": Code.NOT_FOUND,
    "HostNotConnected": Code.REFUSED,
    "HostRefused": Code.REFUSED,
    "SessionRefused": Code.REFUSED,
    "JupyterNotThere": Code.REFUSED,
    "TensorBoardEnded": Code.RUN_FAILED,
    "SessionOver": Code.RUN_FAILED,
    "RunAmbiguous": Code.NOT_FOUND,
    "RunNotStarted": Code.NOT_FOUND,
    "YardNotFound": Code.NOT_FOUND,
    "NoModel": Code.NOT_FOUND,
    "NothingFound": Code.NOT_FOUND,
    "Denied": Code.DENIED,
    "NoCredentials": Code.DENIED,
    "NoAnswer": Code.NO_ANSWER,
    "NotTaken": Code.NO_ANSWER,
}
"""By the class of the error (trainyard.client.errors)."""


OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


@contextmanager
def told(options: Options) -> Iterator[None]:
    """What goes wrong in the block is told to the person, and ends the command with its code."""
    try:
        yield
        sys.stdout.flush()
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        _drop_output()
        raise typer.Exit(Code.DONE) from None
    except KeyboardInterrupt:
        raise typer.Exit(Code.INTERRUPTED) from None
    except SettingsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(Code.USAGE) from None
    except Exception as error:  # noqa: BLE001 - whatever it is, no traceback reaches a person
        raise typer.Exit(_told(error, options)) from None


def code_of(error: YardError) -> Code:
    """Return the exit code of an error of the client."""
    return CODES[type(error).__name__]


def _told(error: Exception, options: Options) -> Code:
    from trainyard.client import YardError
    from trainyard.client.errors import FileUnreadable, NoAnswer, from_aws

    if isinstance(error, YardError):
        return _tell(error, code_of(error), options)
    if found := from_aws(error):
        return _tell(found, Code.NO_ANSWER if isinstance(found, NoAnswer) else Code.REFUSED, options)
    if isinstance(error, OSError) and _is_of_a_file(error):
        if not error.filename:  # what was printed could not be written
            _drop_output()
        return _tell(FileUnreadable.of(error), Code.USAGE, options)
    report = _report(error)
    return _tell(
        YardError(
            f"trainyard has failed: {type(error).__name__}: {error}",
            f"this is a fault of the command; what it was doing is in {report}",
            "send that file to whoever looks after your yard",
        ),
        Code.BUG,
        options,
    )


def _tell(error: YardError, code: Code, options: Options) -> Code:
    from trainyard.cli.output import terminal

    if options.is_json:
        said = {"error": type(error).__name__, "what": error.what, "means": error.means}
        typer.echo(json.dumps({**said, "next": error.next_step, "exit_code": int(code)}), err=True)
    else:
        terminal.failed(error)
    return code


def _report(error: Exception) -> Path:
    """Where the traceback was written."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "trainyard"
    text = f"{sys.argv}\n{''.join(traceback.format_exception(error))}"
    name = f"report-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.txt"
    for folder in (base, Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        except OSError:
            continue
        return folder / name
    return Path("(nowhere: no folder could be written)")


def _is_of_a_file(error: OSError) -> bool:
    """Return True for errors that the user's files and disks cause, not the command."""
    return bool(error.filename) or error.errno in OF_DISKS


def _drop_output() -> None:
    """Send what is still to be printed nowhere: else Python reports at its end that it could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
