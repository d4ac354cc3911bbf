"""The program of action.yml: submit a job, follow its run, and report the result to GitHub.

Inputs are environment variables such as INPUT_JOB. Outputs and a summary are appended to the files that GITHUB_OUTPUT
and GITHUB_STEP_SUMMARY name. Errors become annotations. The command has the same exit codes.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any, Self

import typer

from trainyard.cli import failures
from trainyard.cli.arguments import pairs, parse_changes
from trainyard.cli.options import Options
from trainyard.cli.output import screen
from trainyard.client import Run, RunStatus, Yard, YardError
from trainyard.client.jobs import source
from trainyard.client.yard import changes
from trainyard.command_line import command_line
from trainyard.exit_codes import ExitCode
from trainyard.values.quantities import dollars
from trainyard.values.text import printable

MOST_REASON = 20_000
"""Characters of a reason that are sent to GitHub."""


class OnCancel(StrEnum):
    """The fate of the run if the workflow is cancelled."""

    STOP = "stop"
    LEAVE = "leave"


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The inputs of the action. Raises typer.BadParameter for an unusable input."""

    job: Path
    changes: Mapping[str, Any]
    model: Path | None
    on_cancel: OnCancel

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        given = {
            name: environment.get(f"INPUT_{name}", "").strip()
            for name in ("JOB", "SET", "NAME", "LABELS", "RESUME", "MODEL", "ON_CANCEL")
        }
        if not given["JOB"]:
            raise typer.BadParameter("the input job is empty; it must name the job file")
        if given["ON_CANCEL"] not in tuple(OnCancel):
            raise typer.BadParameter(f"the input on-cancel must be stop or leave, not {given['ON_CANCEL']!r}")
        labels = dict(pairs(_lines(given["LABELS"]), "labels"))
        return cls(
            job=Path(given["JOB"]),
            changes=changes(parse_changes(_lines(given["SET"])), given["NAME"], labels, given["RESUME"]),
            model=Path(given["MODEL"]) if given["MODEL"] else None,
            on_cancel=OnCancel(given["ON_CANCEL"]),
        )


class Cancelled(BaseException):
    """The workflow was cancelled at a point where it may end without harm.

    The class is not an Exception, because botocore retries after every Exception during a request.
    """


@dataclass
class Cancellation:
    """Raises Cancelled at the first SIGINT or SIGTERM, and never again.

    GitHub sends a second signal after some seconds, and kills the process after 10 s (docs.github.com, "Workflow
    cancellation reference").
    """

    held: bool = False
    """While True, a signal is only recorded."""
    received: bool = False

    def begin(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._receive)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Record signals during the block. Call `check` after it."""
        self.held = True
        try:
            yield
        finally:
            self.held = False

    def check(self) -> None:
        """Raise Cancelled if a signal was recorded."""
        if self.received:
            raise Cancelled

    def check_between(self, statuses: Iterable[RunStatus]) -> Iterator[RunStatus]:
        """Yield the statuses, and check before each: Python drops exceptions that a signal raises in `__del__`."""
        for status in statuses:
            self.check()
            yield status

    def _receive(self, number: int, frame: FrameType | None) -> None:
        first, self.received = not self.received, True
        if first and not self.held:
            raise Cancelled


@dataclass
class GitHub:
    """The runner: files that take outputs, and a log whose lines may be commands."""

    outputs: Path
    summary: Path
    outputs_so_far: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        return cls(Path(environment["GITHUB_OUTPUT"]), Path(environment["GITHUB_STEP_SUMMARY"]))

    def put(self, name: str, value: str) -> None:
        """Set an output, which may have several lines."""
        self.outputs_so_far[name] = value
        end = f"end-{secrets.token_hex(8)}"
        with self.outputs.open("a") as file:
            file.write(f"{name}<<{end}\n{value}\n{end}\n")

    def error(self, title: str, text: str) -> None:
        """Annotate the job with an error."""
        print(f"::error title={_escape(title, ':,')}::{_escape(text)}", flush=True)

    def warn(self, title: str, text: str) -> None:
        """Annotate the job with a warning."""
        print(f"::warning title={_escape(title, ':,')}::{_escape(text)}", flush=True)

    def conclude(self) -> None:
        """Write the outputs into the summary of the job."""
        with self.summary.open("a") as file:
            file.write(summary_of(self.outputs_so_far))

    @contextmanager
    def as_text(self) -> Iterator[None]:
        """Keep the runner from executing lines of the block, which hosts and programs have printed (`::add-path::`)."""
        token = secrets.token_hex(16)
        print(f"::stop-commands::{token}", flush=True)
        try:
            yield
        finally:
            sys.stdout.flush()
            print(f"::{token}::", flush=True)


def summary_of(outputs: Mapping[str, str]) -> str:
    """Return the outputs in Markdown."""
    title = f"### {outputs.get('run', 'No run')}: {outputs.get('state', 'not submitted')}\n"
    cost = f"\nCost: {dollars(float(outputs['dollars']))}\n" if outputs.get("dollars") else ""
    reason = outputs.get("reason", "")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", reason)), default=0))
    return f"{title}{cost}\n{fence}text\n{reason}\n{fence}\n" if reason else f"{title}{cost}"


def train(yard: Yard, inputs: Inputs, hub: GitHub, cancellation: Cancellation) -> ExitCode:
    """Submit the job, follow its run, and report the result. Raises YardError, and Cancelled before a run has begun."""
    local = source.read(inputs.job, changes=inputs.changes, to=yard.destination)
    local.check_known_failures()
    sent, run = yard.send(local), None
    try:
        with cancellation.hold():  # the ID of a run that has begun must not be lost
            run = yard.run(yard.begin(local, sent).run)
            hub.put("run", run.id)
        cancellation.check()
        print(run.id, flush=True)
        with hub.as_text():
            screen.show(cancellation.check_between(run.wait_for_start().follow()))
        return _report_end(run, inputs, hub)
    except Cancelled:
        if run is None:
            raise
        return _handle_cancellation(run, inputs, hub)


def _report_end(run: Run, inputs: Inputs, hub: GitHub) -> ExitCode:
    summary, reason = run.summary, run.reason()
    text = printable("\n".join(reason.lines), MOST_REASON)
    hub.put("state", reason.kind)
    hub.put("reason", text)
    hub.put("dollars", str((summary.get("cost") or {}).get("dollars", 0)))
    hub.conclude()
    if reason.kind != "succeeded":
        hub.error(f"{run.id} {reason.kind}", "\n".join([text, *(f"Next: {each}" for each in reason.advice)]))
        return ExitCode.REFUSED if reason.kind == "refused" else ExitCode.RUN_FAILED
    if reason.doubt:
        hub.warn(f"{run.id} {reason.label}", text)
    if inputs.model:
        print(f"Model: {run.model(inputs.model)}")
    return ExitCode.DONE


def _handle_cancellation(run: Run, inputs: Inputs, hub: GitHub) -> ExitCode:
    """Stop or leave the run, within the 10 s before GitHub kills the process."""
    if inputs.on_cancel is OnCancel.STOP:
        run.wait_for_start(5).stop()
        state, fate = "stopping", f"{run.id} saves and stops. To continue: {command_line('resume', run.id)}"
    else:
        state, fate = "left", f"{run.id} continues. To stop it: {command_line('stop', run.id)}"
    text = f"The workflow was cancelled: {fate}"
    hub.put("state", state)
    hub.put("reason", text)
    hub.conclude()
    print(text, flush=True)
    return ExitCode.INTERRUPTED


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _escape(text: str, also: str = "") -> str:
    """Escape a text as GitHub's workflow commands require."""
    for each in "%\r\n" + also:
        text = text.replace(each, f"%{ord(each):02X}")
    return text


def _report_refusal(error: YardError, hub: GitHub) -> ExitCode:
    """Report an error that prevents or interrupts the run."""
    hub.put("state", "refused" if error.exit_code is ExitCode.REFUSED else "failed")
    hub.put("reason", printable(error.what, MOST_REASON))
    hub.conclude()
    hub.error(
        type(error).__name__, printable(f"{error.what}: {error.means}.\nNext: {error.next_step}", MOST_REASON)
    )
    return error.exit_code


def main() -> int:
    """Return the exit code."""
    hub, cancellation = GitHub.of(os.environ), Cancellation()
    cancellation.begin()
    options = Options(yard=os.environ.get("INPUT_YARD") or None)
    options = options.complete(os.environ, Path.cwd(), Path.home())
    try:
        with failures.show_failures(options):
            return _train(options, hub, cancellation)
    except typer.BadParameter as wrong:
        hub.error("Invalid input", wrong.message)
        return ExitCode.USAGE
    except typer.Exit as ended:
        return ended.exit_code


def _train(options: Options, hub: GitHub, cancellation: Cancellation) -> ExitCode:
    try:
        inputs = Inputs.of(os.environ)
        return train(options.find(), inputs, hub, cancellation)
    except YardError as error:
        return _report_refusal(error, hub)
    except Cancelled:
        print("The workflow was cancelled before the run began.", flush=True)
        return ExitCode.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
