"""Observe in an AWS account what docs/unverified.md only assumes, and write a report without names.

`make aws-check` only reads. `ARGS='--spend cents'` also creates small things and deletes them; `--spend host` also
launches one spot host for ten minutes at most.
"""

from pathlib import Path
from typing import Annotated

import boto3
import typer
from botocore.exceptions import BotoCoreError, ClientError

from scripts.aws_check import cents, free, host, report
from scripts.aws_check.check import Account, Check, Finding, Stage, Verdict

CHECKS = (*free.CHECKS, *cents.CHECKS, *host.CHECKS)
FOLDER = Path("build/aws-check")


app = typer.Typer(add_completion=False)


@app.command()
def main(
    spend: Annotated[Stage, typer.Option(help="The most expensive kind of check to make.")] = Stage.FREE,
    only: Annotated[list[str] | None, typer.Option(help="Make this check only. Repeat for more.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before creating anything.")] = False,
    folder: Annotated[Path, typer.Option(help="Folder of the report.")] = FOLDER,
) -> None:
    """Make the checks, print a line for each, and write report.md and recordings.json."""
    account = Account(boto3.Session())
    try:
        identity = account.call("sts", "get_caller_identity")
    except (BotoCoreError, ClientError) as error:
        print(
            f"AWS does not accept these credentials: {error}. Nothing was checked. Next: aws sts get-caller-identity"
        )
        raise typer.Exit(5) from None
    chosen = [each for each in CHECKS if spend.includes(each.stage) and (not only or each.name in only)]
    endpoint = account.session.client("sts").meta.endpoint_url
    local = None if "amazonaws" in endpoint else endpoint
    most = sum(stage.dollars for stage in Stage if spend.includes(stage))
    print(f"account {identity['Account']}, {account.region}, {endpoint}: {len(chosen)} checks")
    print(f"at most ${most:.2f} on AWS" + (" (nothing here: this is a local cloud)" if local else ""))
    if (
        spend is not Stage.FREE
        and not yes
        and not typer.confirm("Create and delete resources in this account?")
    ):
        raise typer.Exit(130)
    findings, recordings, left = [], {}, []
    for check in chosen:
        try:
            finding = _make(check, account)
        finally:  # also after Ctrl-C
            left += account.clean_up()
        recordings[check.name] = dict(account.answers)
        account.answers.clear()
        findings.append((check, finding))
        print(f"{finding.verdict:<8} {check.name}: {finding.seen}", flush=True)
    report.write(
        folder, findings, recordings, account=identity["Account"], region=account.region, endpoint=local
    )
    print(f"{folder}/report.md, {folder}/recordings.json")
    for line in left:
        print(f"not deleted, delete it by hand: {line}")
    raise typer.Exit(int(bool(left) or any(finding.verdict is Verdict.DIFFERS for _, finding in findings)))


def _make(check: Check, account: Account) -> Finding:
    try:
        return check.run(account)
    except (BotoCoreError, ClientError) as error:
        return Finding(Verdict.UNKNOWN, str(error))


if __name__ == "__main__":
    app()
