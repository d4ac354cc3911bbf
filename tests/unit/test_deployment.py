"""`yard deploy` prints one line for each stack, and the reasons of failures."""

import re
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from scripts import deployment
from scripts.cdk_output import Failure, Progress, describe_stacks
from trainyard.cli import clone
from trainyard.cli.app import app
from trainyard.client import Session
from trainyard.command_line import command_line
from trainyard.exit_codes import ExitCode

CREATED = """\
Trainyard-Network: start: Building Trainyard-Network Template
Trainyard/Network (Trainyard-Network)
Trainyard-Network: creating CloudFormation changeset...
Trainyard/Network (Trainyard-Network): deploying... [1/7]
Trainyard-Network | 0/21 | 3:28:16 PM | CREATE_IN_PROGRESS | AWS::CloudFormation::Stack | Trainyard-Network
Trainyard-Network | 0/21 | 3:28:16 PM | CREATE_IN_PROGRESS | AWS::EC2::VPC | Trainyard/Network/Vpc (Vpc8378EB38)
Trainyard-Network | 1/21 | 3:28:16 PM | CREATE_COMPLETE | AWS::EC2::VPC | Trainyard/Network/Vpc (Vpc8378EB38)
Trainyard-Network | 2/21 | 3:28:16 PM | CREATE_COMPLETE | AWS::EC2::Subnet | Trainyard/Network/S1 (S11)
Trainyard-Network | 19/21 | 3:28:16 PM | CREATE_COMPLETE | AWS::CloudFormation::Stack | Trainyard-Network

 ✅  Trainyard/Network (Trainyard-Network)

✨  Deployment time: 0.29s
"""
UPDATED = """\
Trainyard/Patrol (Trainyard-Patrol): deploying... [5/7]
Trainyard-Patrol | 0/4 | 3:28:16 PM | UPDATE_COMPLETE | AWS::Lambda::Function | Trainyard/Patrol/Function (Function1)
Trainyard-Patrol | 1/4 | 3:28:16 PM | CREATE_COMPLETE | AWS::Logs::LogGroup | Trainyard/Patrol/Log (Log1)
\x1b[32m ✅  Trainyard/Patrol (Trainyard-Patrol)\x1b[0m
"""
SAME = """\
Trainyard/Watch (Trainyard-Watch): deploying... [6/7]

 ✅  Trainyard/Watch (Trainyard-Watch) (no changes)
"""
FAILED = """\
Trainyard/Storage (Trainyard-Storage): deploying... [2/7]
Trainyard-Storage | 0/4 | 3:28:16 PM | CREATE_FAILED | AWS::S3::Bucket | Storage/Bucket (Bucket8) Access Denied
Trainyard-Storage | 0/4 | 3:28:16 PM | CREATE_FAILED | AWS::DynamoDB::Table | Ledger (L1) Resource creation cancelled
Trainyard-Storage | 0/4 | 3:28:16 PM | ROLLBACK_IN_PROGRESS | AWS::CloudFormation::Stack | Trainyard-Storage It failed
Trainyard-Storage | 1/4 | 3:28:16 PM | DELETE_COMPLETE | AWS::S3::Bucket | Storage/Bucket (Bucket8)
 ❌  Trainyard/Storage (Trainyard-Storage) failed: _ToolkitError: The stack named Trainyard-Storage failed creation
"""


def read(*texts: str) -> Progress:
    progress = Progress()
    for text in texts:
        for line in text.splitlines():
            progress.read(line)
    return progress


def test_each_stack_that_is_done_is_a_line_with_its_resources() -> None:
    progress = read(CREATED, UPDATED, SAME)
    assert [" ".join(str(each).split()) for each in progress.done] == [
        "1/7 Trainyard-Network created, 2 resources",
        "5/7 Trainyard-Patrol updated, 2 resources",
        "6/7 Trainyard-Watch unchanged",
    ]
    assert describe_stacks(progress.done) == "1 created, 1 updated, 1 unchanged"


def test_the_resource_that_failed_is_named_with_its_reason_and_none_that_was_only_cancelled() -> None:
    progress = read(CREATED, FAILED)
    reason = "Storage/Bucket (Bucket8) Access Denied"
    assert progress.failures == [Failure("Trainyard-Storage", "AWS::S3::Bucket", reason)]
    assert len(progress.done) == 1


@pytest.mark.parametrize("line", ["", "Outputs:", "✨  Total time: 9.07s", "a | b", "❌ no stack"])
def test_other_lines_are_for_the_log_alone(line: str) -> None:
    assert read(line) == Progress()


def test_without_a_region_nothing_is_downloaded_or_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Mock(side_effect=AssertionError("nothing may run"))
    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr("subprocess.Popen", run)
    monkeypatch.setattr(Session, "of", lambda **_: Mock(region=""))
    assert deployment.main(["-c", "yard=Other"]) == deployment.NOT_READY
    output = capsys.readouterr().out
    assert "no region is set" in output
    assert "Next: export AWS_REGION=us-east-1" in output


def test_the_command_sets_up_no_clone_without_a_region(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_up = Mock()
    monkeypatch.setattr(clone, "find", lambda: tmp_path)
    monkeypatch.setattr(clone, "make", set_up)
    monkeypatch.setattr(clone, "run", set_up)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    done = CliRunner().invoke(app, ["yard", "deploy"])
    assert done.exit_code == ExitCode.USAGE
    assert "region" in done.stderr
    set_up.assert_not_called()


def test_without_node_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(deployment.DeploymentError, match="node is not installed") as raised:
        deployment.check_tools()
    assert raised.value.code == deployment.NOT_READY


@pytest.mark.parametrize(("output", "yard"), [({}, "Trainyard"), ({"a": "b", "yard": "Other"}, "Other")])
def test_the_yard_is_the_one_that_the_settings_name(output: dict[str, str], yard: str) -> None:
    folders = Path("cdk.out"), Path("build/outputs.json")
    made = deployment.Deployment(Mock(), output, (), (), False, *folders)
    assert made.yard == yard
    assert made.log == Path("build/cdk.log")


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["-c", "most_run=5"], "context most_run: a yard has no such setting; did you mean most_runs?"),
        (["-c", "notify=nobody"], "context notify='nobody': expected a mail address"),
        (["-c", "notify"], "-c notify: expected KEY=VALUE"),
        (["-c", "wholly_else=1"], "the settings are yard, private"),
    ],
)
def test_a_setting_that_no_yard_has_is_refused_before_anything_is_asked(
    words: list[str], output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Session, "of", Mock(side_effect=AssertionError("nothing may be asked")))
    assert deployment.main(words) == deployment.USAGE
    assert output in capsys.readouterr().out


def test_its_messages_repeat_the_options_by_which_the_yard_was_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(Session, "of", lambda **_: Mock())
    monkeypatch.setattr(deployment.Deployment, "run", lambda self: lines.append(command_line("doctor")))
    assert deployment.main(["-c", "yard=Other", "--profile", "ops", "--region", "eu-west-1"]) == 0
    assert lines == ["trainyard --yard Other --profile ops --region eu-west-1 doctor"]


def test_the_cost_of_an_idle_yard_is_that_of_the_runbook() -> None:
    page = (deployment.ROOT / "docs/runbook.md").read_text()
    (found,) = re.findall(r"\*\*total\*\* \| \*\*([\d.]+)\*\*", page)
    assert round(float(found), 1) == deployment.IDLE_DOLLARS
