"""The one place where an error becomes lines and an exit code."""

from __future__ import annotations

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
from typing import TYPE_CHECKING, NoReturn

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
    "RunRefused": Code.REFUSED,
    "NotPlanned": Code.REFUSED,
    "JobRefused": Code.REFUSED,
    "HostsRunning": Code.REFUSED,
    "RunsRunning": Code.REFUSED,
    "StackNotDeleted": Code.REFUSED,
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
    "Denied": Code.DENIED,
    "NoCredentials": Code.DENIED,
    "NoAnswer": Code.NO_ANSWER,
    "NotTaken": Code.NO_ANSWER,
}
"""By the class of the error (trainyard.client.errors)."""


@contextmanager
def told(options: Options) -> Iterator[None]:
    """What goes wrong in the block is told to the person, and ends the command with its code."""
    try:
        yield
        sys.stdout.flush()
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        _end_silently()
    except KeyboardInterrupt:
        raise typer.Exit(Code.INTERRUPTED) from None
    except SettingsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(Code.USAGE) from None
    except Exception as error:  # noqa: BLE001 - whatever it is, no traceback reaches a person
        raise typer.Exit(_told(error, options)) from None


def _told(error: Exception, options: Options) -> Code:
    from botocore.exceptions import ClientError

    from trainyard.client import YardError
    from trainyard.client.errors import as_answered

    if isinstance(error, YardError):
        return _tell(error, CODES[type(error).__name__], options)
    if isinstance(error, ClientError):
        return _tell(as_answered(error), Code.REFUSED, options)
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


def _end_silently() -> NoReturn:
    """Whoever read what was printed has gone away: no word, also none of Python's at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(Code.DONE)
