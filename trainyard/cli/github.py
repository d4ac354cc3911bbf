"""What action.yml runs: submit a job, follow its run, and tell GitHub how it ended.

Inputs are environment variables, INPUT_JOB and so on. Outputs and a summary are appended to the files that
GITHUB_OUTPUT and GITHUB_STEP_SUMMARY name, what is wrong is an annotation, and the exit codes are those of the command.
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
from trainyard.cli.arguments import pairs, parsed
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
"""Characters of a reason that GitHub is given."""


class OnCancel(StrEnum):
    """What becomes of the run of a workflow that is cancelled."""

    STOP = "stop"
    LEAVE = "leave"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The inputs of the action. Raises typer.BadParameter for one that cannot be meant."""

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
            raise typer.BadParameter("the input job is empty; it names the job file")
        if given["ON_CANCEL"] not in tuple(OnCancel):
            raise typer.BadParameter(f"the input on-cancel is stop or leave, not {given['ON_CANCEL']!r}")
        labels = dict(pairs(_lines(given["LABELS"]), "labels"))
        return cls(
            job=Path(given["JOB"]),
            changes=changes(parsed(_lines(given["SET"])), given["NAME"], labels, given["RESUME"]),
            model=Path(given["MODEL"]) if given["MODEL"] else None,
            on_cancel=OnCancel(given["ON_CANCEL"]),
        )


class Cancelled(BaseException):
    """Raised where a cancelled workflow may end without harm. As KeyboardInterrupt it is no Exception: botocore takes
    each that meets it while it waits for an answer for trouble with the network, and asks again."""


@dataclass
class Cancellation:
    """SIGINT and SIGTERM from here on raise Cancelled, the first of them: GitHub sends another after some seconds, and
    kills after ten (docs.github.com, "Workflow cancellation reference"). While it is `held` back it is remembered."""

    held: bool = False
    heard: bool = False

    def begin(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """In the block it is held back: `look` behind it."""
        self.held = True
        try:
            yield
        finally:
            self.held = False

    def look(self) -> None:
        """Raise Cancelled if that was asked for meanwhile."""
        if self.heard:
            raise Cancelled

    def between(self, statuses: Iterable[RunStatus]) -> Iterator[RunStatus]:
        """The same, looked at before each: what is raised while Python tidies up (`__del__`) reaches nobody."""
        for status in statuses:
            self.look()
            yield status

    def _hear(self, number: int, frame: FrameType | None) -> None:
        first, self.heard = not self.heard, True
        if first and not self.held:
            raise Cancelled


@dataclass
class GitHub:
    """The runner: files to append to, and a log in which some lines are commands."""

    outputs: Path
    summary: Path
    said: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        return cls(Path(environment["GITHUB_OUTPUT"]), Path(environment["GITHUB_STEP_SUMMARY"]))

    def put(self, name: str, value: str) -> None:
        """An output, with whatever lines it has."""
        self.said[name] = value
        end = f"end-{secrets.token_hex(8)}"
        with self.outputs.open("a") as file:
            file.write(f"{name}<<{end}\n{value}\n{end}\n")

    def error(self, title: str, text: str) -> None:
        """An annotation."""
        print(f"::error title={_escaped(title, ':,')}::{_escaped(text)}", flush=True)

    def warn(self, title: str, text: str) -> None:
        """Annotate the job with a warning."""
        print(f"::warning title={_escaped(title, ':,')}::{_escaped(text)}", flush=True)

    def conclude(self) -> None:
        """The summary of the job: what was put."""
        with self.summary.open("a") as file:
            file.write(summary_of(self.said))

    @contextmanager
    def as_text(self) -> Iterator[None]:
        """What a run's hosts and program have said is no command to the runner (`::add-path::`), whatever it begins
        with."""
        token = secrets.token_hex(16)
        print(f"::stop-commands::{token}", flush=True)
        try:
            yield
        finally:
            sys.stdout.flush()
            print(f"::{token}::", flush=True)


def summary_of(said: Mapping[str, str]) -> str:
    """The outputs in Markdown."""
    title = f"### {said.get('run', 'No run')}: {said.get('state', 'not submitted')}\n"
    cost = f"\nCost: {dollars(float(said['dollars']))}\n" if said.get("dollars") else ""
    reason = said.get("reason", "")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", reason)), default=0))
    return f"{title}{cost}\n{fence}text\n{reason}\n{fence}\n" if reason else f"{title}{cost}"


def train(yard: Yard, asked: Asked, hub: GitHub, cancellation: Cancellation) -> ExitCode:
    """Submit, follow, conclude. Raises YardError; Cancelled where no run has begun."""
    local = source.read(asked.job, changes=asked.changes, bucket=yard.bucket.name)
    local.check_known_failures()
    sent, run = yard.send(local), None
    try:
        with cancellation.hold():  # else a run could begin whose id nobody knows
            run = yard.run(yard.begin(local, sent).run)
            hub.put("run", run.id)
        cancellation.look()
        print(run.id, flush=True)
        with hub.as_text():
            screen.show(cancellation.between(run.started().follow()))
        return _ended(run, asked, hub)
    except Cancelled:
        if run is None:
            raise
        return _cancelled(run, asked, hub)


def _ended(run: Run, asked: Asked, hub: GitHub) -> ExitCode:
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
    if asked.model:
        print(f"The model: {run.model(asked.model)}")
    return ExitCode.DONE


def _cancelled(run: Run, asked: Asked, hub: GitHub) -> ExitCode:
    """Within GitHub's ten seconds."""
    if asked.on_cancel is OnCancel.STOP:
        run.started(5).stop()
        state, said = "stopping", f"{run.id} saves and ends. {command_line('resume', run.id)} goes on."
    else:
        state, said = "left", f"{run.id} goes on. {command_line('stop', run.id)} ends it."
    text = f"The workflow was cancelled: {said}"
    hub.put("state", state)
    hub.put("reason", text)
    hub.conclude()
    print(text, flush=True)
    return ExitCode.INTERRUPTED


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _escaped(text: str, also: str = "") -> str:
    """As the runner reads the text of a command."""
    for each in "%\r\n" + also:
        text = text.replace(each, f"%{ord(each):02X}")
    return text


def _refused(error: YardError, hub: GitHub) -> ExitCode:
    """No run, or none that can be followed."""
    hub.put("state", "refused" if error.exit_code is ExitCode.REFUSED else "failed")
    hub.put("reason", printable(error.what, MOST_REASON))
    hub.conclude()
    hub.error(
        type(error).__name__, printable(f"{error.what}: {error.means}.\nNext: {error.next_step}", MOST_REASON)
    )
    return error.exit_code


def main() -> int:
    """Answers the exit code."""
    hub, cancellation = GitHub.of(os.environ), Cancellation()
    cancellation.begin()
    said = Options(yard=os.environ.get("INPUT_YARD") or None)
    options = said.completed(os.environ, Path.cwd(), Path.home())
    try:
        with failures.told(options):
            return _trained(options, hub, cancellation)
    except typer.BadParameter as wrong:
        hub.error("An input of the action", wrong.message)
        return ExitCode.USAGE
    except typer.Exit as ended:
        return ended.exit_code


def _trained(options: Options, hub: GitHub, cancellation: Cancellation) -> ExitCode:
    try:
        asked = Asked.of(os.environ)
        return train(options.find(), asked, hub, cancellation)
    except YardError as error:
        return _refused(error, hub)
    except Cancelled:
        print("The workflow was cancelled: no run had begun.", flush=True)
        return ExitCode.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
