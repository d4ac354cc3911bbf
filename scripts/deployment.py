"""`python -m scripts.deployment [-c KEY=VALUE ...] [--reset KEY ...]`: deploy the yard, with one line for each step.

`--yard`, `--profile` and `--region` are as in `trainyard`. Other arguments go to `cdk`.

The output of `cdk` goes to a log. Identity, region and tools are checked before any download or change. ASSEMBLY and
OUTPUTS name the assembly's folder and the file for stack outputs; the log is next to it. APPROVAL selects what `cdk`
asks about, for example `broadening`; by default it asks nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from scripts import assembly
from scripts.cdk_output import Failure, Progress, StackDone, describe_stacks
from scripts.settings import Choice, choose, settings_of_clone
from trainyard.cli.options import NAME, Options, SettingsError
from trainyard.cli.yard_settings import needs
from trainyard.client import Session, Yard, YardError
from trainyard.client.admin import preflight, retained, teardown
from trainyard.client.admin.preflight import Preflight
from trainyard.client.admin.requirements import Verdict
from trainyard.client.admin.retained import Retained
from trainyard.client.deployment import settings_of
from trainyard.command_line import command_line, repeat_options
from trainyard.core.model.yard import settings
from trainyard.values.quantities import format_count, span

ROOT = Path(__file__).resolve().parent.parent
IDLE_DOLLARS = 1.50
"""Monthly cost of an idle yard (docs/runbook.md)."""
BROKEN, USAGE, NOT_READY = 1, 2, 3
"""Exit codes: a step failed, a setting is invalid, the account cannot hold a yard."""
LAST_LINES = 20
PREPARED = "Custom::Prepared"
"""Resource that starts a bake.

If a deployment leaves it unchanged, the stack's output is from an earlier deployment.
"""


class DeploymentError(Exception):
    """A step failed. The text has the reason."""

    def __init__(self, reason: str, code: int = BROKEN) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class Account:
    """Target of the deployment. `is_bootstrapped` is True if the CDK's own stack exists there."""

    id: str
    region: str
    is_bootstrapped: bool


@dataclass
class Deployment:
    """A deployment. `named` has the settings of each -c, `reset` those to reset, and `more` the arguments for `cdk`."""

    session: Session
    named: Mapping[str, str]
    reset: Sequence[str]
    more: Sequence[str]
    is_verbose: bool
    folder: Path
    outputs: Path

    @property
    def log(self) -> Path:
        return self.outputs.with_name("cdk.log")

    @property
    def yard(self) -> str:
        return self.named.get("yard") or NAME

    def run(self) -> None:
        """Deploy. Raise YardError, SettingsError or DeploymentError."""
        began = time.monotonic()
        account = find_account(self.session)
        endpoint = os.environ.get("AWS_ENDPOINT_URL")
        print_line(
            f"Deploying {self.yard}: account {account.id}, {account.region}{f', {endpoint}' if endpoint else ''}"
        )
        check_tools()
        adopted = self._find_retained()
        choice = self._choose(adopted)
        self._check_account(choice)
        install_cdk()
        arguments = [*choice.arguments, *self.more]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("w") as log:
            self._synthesize(account, arguments, log)
            if not account.is_bootstrapped:
                where = f"aws://{account.id}/{account.region}"
                self._cdk(log, "bootstrap", where)
                print_line(
                    f"  bootstrap  {preflight.BOOTSTRAP} created: the CDK's own stack, once for each account and region"
                )
            if adopted.settings:
                self._deploy_stacks(log, f"{self.yard}/Storage", "--import-existing-resources")
            progress = self._deploy_stacks(log, "--all")
        print_line(f"Deployed in {span(time.monotonic() - began)}.")
        self._summarize(progress.done, is_prepared=PREPARED in progress.kinds)

    def _find_retained(self) -> Retained:
        """Return what an earlier yard of this name retained, unless the yard exists. May raise Ambiguous."""
        if f"{self.yard}-Storage" in teardown.stacks(self.session, self.yard):
            return Retained()
        return retained.find(self.session, self.yard, list(self.named.values()))

    def _choose(self, adopted: Retained) -> Choice:
        """Return the settings. May raise SettingsError."""
        deployed = settings_of(self.session, self.yard)
        context = json.loads((ROOT / "cdk.json").read_text())["context"]
        try:
            choice = choose(self.named, settings_of_clone(context), deployed, self.reset)
        except ValueError as error:
            raise SettingsError(str(error)) from error
        for line in choice.lines:
            print_line(f"  {line}")
        if adopted.settings:
            print_line(f"  adopted    {adopted}, retained from an earlier yard {self.yard}")
        return replace(choice, words={**adopted.settings, **choice.words})

    def _check_account(self, choice: Choice) -> None:
        found = preflight.look(self.session, needs([f"{key}={value}" for key, value in choice.words.items()]))
        for row in found.rows:
            if row.verdict is not Verdict.READY:
                print_line(f"  {row.verdict:<9}  {row.subject}: {row.found}; needed: {row.needed}")
                print_line(f"             {row.next_step}")
        if not found.can_deploy:
            raise DeploymentError("this account is not ready for a yard, and nothing was changed", NOT_READY)
        print_line(f"  preflight  {summary_of(found)}")

    def _synthesize(self, account: Account, arguments: Sequence[str], log: IO[str]) -> None:
        where = f"{account.id}/{account.region}"
        made = assembly.is_current(self.folder, where, arguments)
        if not made:
            synth = [*assembly.SYNTH, "--output", str(self.folder), *arguments]
            self._command(synth, log, Progress())
            assembly.mark_current(self.folder, where, arguments)
        count = len(list(self.folder.glob("*.template.json")))
        print_line(f"  synthesis  {format_count(count, 'stack')}{', sources unchanged' if made else ''}")

    def _deploy_stacks(self, log: IO[str], *which: str) -> Progress:
        progress = Progress()
        options = ["--require-approval", os.environ.get("APPROVAL", "never"), "--progress", "events"]
        self._cdk(log, "deploy", *which, *options, "--outputs-file", str(self.outputs), progress=progress)
        return progress

    def _cdk(self, log: IO[str], *words: str, progress: Progress | None = None) -> None:
        verb, *more = words
        command = ["cdk", verb, "--no-notices", "--app", str(self.folder), *more]
        self._command(command, log, progress or Progress())

    def _command(self, command: Sequence[str], log: IO[str], progress: Progress) -> None:
        """Run a command. Log every line, and print a line for each completed step."""
        log.write(f"$ {' '.join(command)}\n")
        log.flush()
        with subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=None if "APPROVAL" in os.environ else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout
            for line in process.stdout:
                log.write(line)
                log.flush()
                if self.is_verbose:
                    print_line(line.rstrip("\n"))
                if done := progress.read(line):
                    print_line(f"  {done}")
        if process.returncode:
            raise DeploymentError(self._reason(command, process.returncode, progress.failures))

    def _reason(self, command: Sequence[str], code: int, failures: Sequence[Failure]) -> str:
        what = f"`{' '.join(command[:2])}` ended with exit code {code}"
        if failures:
            return "\n".join([what, *(f"  {each}" for each in failures)])
        return "\n".join([what, *(f"  {line}" for line in self.log.read_text().splitlines()[-LAST_LINES:])])

    def _summarize(self, done: Sequence[StackDone], *, is_prepared: bool) -> None:
        yard = Yard.find(self.yard, session=self.session)
        outputs: Mapping[str, Mapping[str, str]] = json.loads(self.outputs.read_text()) if done else {}
        training = outputs.get(f"{self.yard}-Training", {})
        image = yard.image()
        for name, value in (
            (
                "yard",
                f"{yard.name} {yard.version}, {format_count(len(done), 'stack')}, {describe_stacks(done)}",
            ),
            ("bucket", yard.bucket.name),
            ("dashboard", yard.dashboard),
            ("image", image if image != "none" else "none yet"),
            ("prepared", training.get("Prepared", "") if is_prepared else ""),
            ("limits", training.get("Limits", "")),
            ("cost", f"about ${IDLE_DOLLARS:.2f} a month while nothing runs (docs/runbook.md)"),
            ("log", str(self.log)),
        ):
            if value:
                print_line(f"  {name:<9}  {value}")
        if image != "none":
            next_step = ["doctor"]
        else:
            is_uploaded = bool(yard.bucket.keys(yard.recipe))
            next_step = ["image", "bake", *([] if is_uploaded else [f"examples/{yard.recipe}"])]
        print_line(f"Next: {command_line(*next_step)}")


def find_account(session: Session) -> Account:
    """Return AWS's answer about the caller. May raise NoRegion, NoCredentials, NoAnswer or Denied."""
    account = preflight.find_account(session)
    formation = session.client("cloudformation")
    try:
        formation.describe_stacks(StackName=preflight.BOOTSTRAP)
    except formation.exceptions.ClientError as error:
        if "does not exist" not in str(error):
            raise
        return Account(account, session.region, is_bootstrapped=False)
    return Account(account, session.region, is_bootstrapped=True)


def check_tools() -> None:
    """Raise DeploymentError if a tool for the CDK is missing."""
    if not shutil.which("node"):
        raise DeploymentError(
            "node is not installed, and the CDK needs it; nothing was downloaded or changed.\n"
            "Install it (Debian, Ubuntu: apt-get install nodejs npm), then deploy again.",
            NOT_READY,
        )


def install_cdk() -> None:
    """Install the pinned `cdk` command if it is missing."""
    wanted, installed = ROOT / "scripts/cdk/package-lock.json", ROOT / ".tools/cdk/package-lock.json"
    is_other = installed.exists() and installed.read_text() != wanted.read_text()
    if shutil.which("cdk") and not is_other:
        return
    print_line("  tools      installing the cdk command into .tools/cdk")
    done = subprocess.run(["make", "--no-print-directory", "-C", str(ROOT), ".tools/cdk/.ready"], check=False)
    if done.returncode:
        raise DeploymentError(
            "the cdk command could not be installed; the reason is above, and nothing was changed"
        )


def summary_of(found: Preflight) -> str:
    """Return the number of passed checks."""
    ready = sum(row.verdict is Verdict.READY for row in found.rows)
    return f"{ready} of {len(found.rows)} checks passed"


def print_line(line: str) -> None:
    print(line, flush=True)


def main(arguments: Sequence[str]) -> int:
    asked, more = _parser().parse_known_args(arguments)
    try:
        named = settings.read_words([*([f"yard={asked.yard}"] if asked.yard else []), *asked.context])
    except ValueError as error:
        print_line(f"deploy: {error}")
        return USAGE
    outputs = Path(os.environ.get("OUTPUTS", "build/outputs.json"))
    deployment = Deployment(
        session=Session.of(profile=asked.profile, region=asked.region),
        named=named,
        reset=asked.reset,
        more=more,
        is_verbose=asked.verbose or "APPROVAL" in os.environ,
        folder=Path(os.environ.get("ASSEMBLY", "cdk.out")),
        outputs=outputs,
    )
    chosen = Options(named.get("yard"), asked.profile, asked.region)
    with repeat_options(chosen.words):
        return _run(deployment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="deploy", allow_abbrev=False)
    parser.add_argument("-c", "--context", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--reset", action="append", default=[], metavar="KEY")
    parser.add_argument("--verbose", action="store_true")
    for name in ("--yard", "--profile", "--region"):
        parser.add_argument(name)
    return parser


def _run(deployment: Deployment) -> int:
    """Deploy and return the exit code."""
    try:
        deployment.run()
    except SettingsError as error:
        print_line(f"deploy: {error}")
        return USAGE
    except YardError as error:
        print_line(f"deploy: {error.what}\n  {error.means}\nNext: {error.next_step}")
        return NOT_READY
    except DeploymentError as error:
        print_line(f"deploy: {error}")
        if deployment.log.exists():
            print_line(f"CDK's log: {deployment.log}")
        print_line(f"Next: correct the cause, then {command_line('yard', 'deploy')}")
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
