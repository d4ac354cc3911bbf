"""Turn an error into lines for the user and an exit code."""

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
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trainyard.cli.options import Options, SettingsError
from trainyard.command_line import command_line
from trainyard.exit_codes import ExitCode

if TYPE_CHECKING:
    from trainyard.client import YardError


DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


@contextmanager
def show_failures(options: Options) -> Iterator[None]:
    """Print an error of the block, and end the command with the error's exit code."""
    try:
        yield
        sys.stdout.flush()
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        _drop_output()
        raise typer.Exit(ExitCode.DONE) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except SettingsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(ExitCode.USAGE) from None
    except Exception as error:  # noqa: BLE001 - no traceback reaches a user
        raise typer.Exit(_show(error, options)) from None


def _show(error: Exception, options: Options) -> ExitCode:
    from trainyard.cli.output import terminal

    shown = _yard_error(error)
    if options.is_json:
        texts = {"error": type(shown).__name__, "what": shown.what, "means": shown.means}
        typer.echo(
            json.dumps({**texts, "next": shown.next_step, "exit_code": int(shown.exit_code)}), err=True
        )
    else:
        terminal.print_error(shown)
    return shown.exit_code


def _yard_error(error: Exception) -> YardError:
    from trainyard.client.errors import CommandBroken, FileUnreadable, RowUnreadable, YardError, from_aws
    from trainyard.protocol.ledger.reading import UnreadableRowError
    from trainyard.protocol.summary import UnreadableSummaryError

    if isinstance(error, YardError):
        return error
    if found := from_aws(error):
        return found
    if isinstance(error, OSError) and _is_of_a_file(error):
        if not error.filename:  # standard output could not be written
            _drop_output()
        return FileUnreadable.of(error)
    if isinstance(error, UnreadableRowError | UnreadableSummaryError):
        return RowUnreadable(
            str(error).rstrip("."),
            "another version of Trainyard wrote it, or a user changed it; the run itself is unchanged",
            f"{command_line('yard', 'status')} shows the yard's version; install that version",
        )
    report = _report(error)
    return CommandBroken(
        f"trainyard has failed: {type(error).__name__}: {error}",
        f"this is a bug in the command; the traceback is in {report}",
        "send that file to the operator of your yard",
    )


def _report(error: Exception) -> Path:
    """Write the command line and the traceback to a file that only the user can read, and return the path."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "trainyard"
    text = f"{sys.argv}\n{''.join(traceback.format_exception(error))}"
    name = f"report-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.txt"
    for folder in (base, Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            private = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(private, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return folder / name
    return Path("(nowhere: no folder could be written)")


def _is_of_a_file(error: OSError) -> bool:
    """Return True for errors that the user's files and disks cause, not the command."""
    return bool(error.filename) or error.errno in DISK_ERRORS


def _drop_output() -> None:
    """Discard the rest of the output, so that Python does not report at its end that it could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
