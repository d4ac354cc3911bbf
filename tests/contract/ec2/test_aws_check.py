"""`make aws-check` runs to its end on the local cloud, leaves nothing, and its report names no account and no id."""

import os
import re
import subprocess
import sys
from pathlib import Path

from scripts.aws_check.__main__ import CHECKS
from tests.contract.conftest import ACCOUNT, REGION, ROOT, Cloud


def checked(cloud: Cloud, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    keys = {
        "AWS_ENDPOINT_URL": cloud.endpoint,
        "AWS_ACCESS_KEY_ID": cloud.root.key,
        "AWS_SECRET_ACCESS_KEY": cloud.root.secret,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }
    command = [sys.executable, "-m", "scripts.aws_check", "--folder", str(folder), *options]
    return subprocess.run(command, cwd=ROOT, env=own | keys, capture_output=True, text=True, check=False)


def test_every_check_holds_on_the_local_cloud_and_nothing_is_left(cloud: Cloud, tmp_path: Path) -> None:
    def things() -> tuple[int, ...]:
        ec2 = cloud.client("ec2")
        return (
            len(cloud.client("s3").list_buckets()["Buckets"]),
            len(cloud.client("iam").list_roles()["Roles"]),
            len(cloud.client("dynamodb").list_tables()["TableNames"]),
            len(ec2.describe_launch_templates()["LaunchTemplates"]),
        )

    before = things()
    done = checked(cloud, tmp_path, "--spend", "host", "--yes")
    verdicts = re.findall(r"^(holds|differs|unknown) +([a-z-]+): .*", done.stdout, re.MULTILINE)
    assert verdicts == [("holds", check.name) for check in CHECKS], done.stdout + done.stderr
    assert done.returncode == 0
    assert things() == before
    report = (tmp_path / "report.md").read_text() + (tmp_path / "recordings.json").read_text()
    assert re.findall(rf"{ACCOUNT}|{REGION}|\b(?:i|ami)-[0-9a-f]{{8,}}|AKIA|\d+\.\d+\.\d+\.\d+", report) == []
    assert "<instance-id:1>" in report


def test_without_consent_nothing_is_created(cloud: Cloud, tmp_path: Path) -> None:
    done = checked(cloud, tmp_path, "--spend", "cents", "--only", "first-write")
    assert done.returncode != 0
    assert "at most $0.05 on AWS" in done.stdout
    assert not (tmp_path / "report.md").exists()


def test_credentials_that_aws_refuses_end_it_with_what_to_type(cloud: Cloud, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.aws_check", "--folder", str(tmp_path)],
        cwd=ROOT,
        env=os.environ
        | {"AWS_ENDPOINT_URL": cloud.endpoint, "AWS_REGION": REGION}
        | {"AWS_ACCESS_KEY_ID": "AKIAUNKNOWN", "AWS_SECRET_ACCESS_KEY": "x"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "aws sts get-caller-identity" in done.stdout) == (5, True), (
        done.stdout + done.stderr
    )
