"""The command for its users: help, errors as lines and exit codes, settings, pipes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from trainyard.cli import failures
from trainyard.cli.app import app
from trainyard.cli.options import Options, Output, SettingsError
from trainyard.client import errors
from trainyard.client.errors import Denied, JobRefused, RunAmbiguous, RunFailed, YardError, YardNotFound
from trainyard.exit_codes import ExitCode

ROOT = Path(__file__).parents[3]


def commands(group: typer.Typer = app, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [(*above, str(each.name)) for each in group.registered_commands]
    for inner in group.registered_groups:
        assert inner.typer_instance
        found += commands(inner.typer_instance, (*above, str(inner.name)))
    return found


COMMANDS = commands()


def test_a_command_is_the_file_of_its_name() -> None:
    """Every file of a command is listed in trainyard/cli/app.py."""
    folder = ROOT / "trainyard/cli/commands"
    files = {each.relative_to(folder) for each in folder.rglob("*.py") if each.name != "__init__.py"}
    listed = {Path(*words).with_suffix(".py") for words in COMMANDS}
    there = {each.with_stem(each.stem.rstrip("_").replace("_", "-")) for each in files}
    assert not there - listed, f"add to COMMANDS or GROUPS in trainyard/cli/app.py: {there - listed}"
    assert not listed - there, f"trainyard/cli/app.py names files that are missing: {listed - there}"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_examples(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*words, "--help"])
    assert done.exit_code == 0
    assert "Examples:" in done.stdout
    assert f"trainyard {' '.join(words)}" in done.stdout


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=lambda words: " ".join(words) or "trainyard")
def test_help_fits_forty_columns(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "40"}, terminal_width=40)
    examples = done.stdout.partition("Examples:")[2].splitlines()
    assert [line for line in done.stdout.splitlines() if len(line) > 40 and line not in examples] == []


@pytest.mark.parametrize("word", ["chekc", "sumbit"])
def test_a_mistyped_command_is_told_the_right_one(word: str) -> None:
    done = CliRunner().invoke(app, [word])
    assert done.exit_code == ExitCode.USAGE
    assert "Did you mean" in done.stderr


def test_help_imports_neither_aws_nor_what_draws() -> None:
    asked = (
        "import sys; sys.argv = ['trainyard', '--help']\n"
        "from trainyard.cli.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print({'boto3', 'botocore', 'yaml', 'plotille', 'rich.progress', 'rich.live'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "set()"


# --- errors
ENDS = [
    (RunFailed("x failed: exit code 3", "what it has left is kept", "trainyard why x"), 1),
    (errors.FileUnreadable("j.yaml cannot be read", "No such file", "give the file's path"), 2),
    (JobRefused("j.yaml has a fault.\n- name: is missing", (), Path("j.yaml")), 3),
    (YardNotFound("no yard X in account 1", "there is no yard at all", "make deploy"), 4),
    (RunAmbiguous("dig is no run's id", ("digits-1", "digits-2")), 4),
    (Denied("s3:PutObject was denied", "User: me", "ask"), 5),
    (errors.HostNotConnected("i-1 is not connected", "no session", "wait"), 3),
    (errors.SessionRefused("the session was refused", "no shell", "ask"), 3),
    (errors.SessionOver("the session is over", "no shell", "open another"), 1),
    (errors.HostNotFound("no host i-1", "it is gone", "trainyard hosts"), 4),
    (errors.ArchiveBroken("source.tar is broken", "nothing was written", "get it again"), 3),
    (errors.NoAnswer("no answer", "no network", "look"), 69),
]


@pytest.mark.parametrize(("error", "code"), ENDS, ids=[type(row[0]).__name__ for row in ENDS])
@pytest.mark.parametrize("output", Output)
def test_an_error_says_what_it_means_and_what_to_type(
    error: YardError, code: int, output: Output, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, failures.show_failures(Options(output=output)):
        raise error
    assert ended.value.exit_code == code
    said = capsys.readouterr()
    assert said.out == ""
    for part in (error.what, error.means, error.next_step):
        assert part.replace("\n", "\\n" if output is Output.JSON else "\n") in said.err
    if output is Output.JSON:
        assert json.loads(said.err)["exit_code"] == code


def test_a_bug_of_ours_is_a_line_and_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(typer.Exit) as ended, failures.show_failures(Options()):
        raise ZeroDivisionError("by zero")
    assert ended.value.exit_code == ExitCode.BUG
    (report,) = (tmp_path / "trainyard").iterdir()
    said = capsys.readouterr().err
    assert str(report) in said
    assert "Traceback" not in said
    assert "Traceback" in report.read_text()
    assert report.stat().st_mode & 0o077 == 0, "a command line may hold a secret"


def test_an_interrupt_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, failures.show_failures(Options()):
        raise KeyboardInterrupt
    assert (ended.value.exit_code, capsys.readouterr().err) == (130, "")


def test_a_pipe_that_is_closed_ends_it_silently(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: x\nprogram: {module: training.programs.matmul}\n")
    code = (
        "import sys, os\n"
        "from trainyard.cli.output import terminal\n"
        "from trainyard.cli.command import command, group, root\n"
        "app = group('x'); root(app)\n"
        "@command()\ndef much(options):\n"
        "    'Print much.'\n"
        "    for _ in range(100000): terminal.console.print('x' * 50)\n"
        "much.register(app, 'much')\n"
        "@command()\ndef more(options):\n"
        "    'Print more.'\n"
        "    for _ in range(100000): terminal.answer_line({'x': 1})\n"
        "more.register(app, 'more')\n"
        "app(sys.argv[1:])\n"
    )
    for word in ("much", "more"):
        line = f'{sys.executable} -c "$CODE" {word} | head -1'
        environment = {**os.environ, "CODE": code, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)


# --- settings
def told(
    options: Options, environment: dict[str, str], folder: Path, home: Path
) -> tuple[str | None, str | None]:
    found = options.complete(environment, folder, home)
    return found.yard, found.region


def test_flags_go_before_the_environment_before_the_project_before_the_user(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project" / "deep"
    project.mkdir(parents=True)
    (home / ".config" / "trainyard").mkdir(parents=True)
    (home / ".config" / "trainyard" / "config.toml").write_text('yard = "user"\nregion = "eu-north-1"\n')
    assert told(Options(), {}, project, home) == ("user", "eu-north-1")
    (project.parent / "pyproject.toml").write_text('[tool.trainyard]\nyard = "project"\n')
    assert told(Options(), {}, project, home) == ("project", "eu-north-1")
    environment = {"TRAINYARD_YARD": "environment", "AWS_DEFAULT_REGION": "us-west-2"}
    assert told(Options(), environment, project, home) == ("environment", "us-west-2")
    assert told(Options(yard="flag"), environment, project, home) == ("flag", "us-west-2")


@pytest.mark.parametrize("text", ["yarrd = 'x'", "yard = 3", "output = 'xml'", "yard ="])
def test_a_file_of_settings_that_is_wrong_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "trainyard").mkdir()
    (tmp_path / "trainyard" / "config.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"config\.toml"):
        Options().complete({"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path, tmp_path)


def test_options_stand_before_a_command_or_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.yaml").write_text("name: x\nprogram: {module: training.programs.matmul}\n")
    monkeypatch.chdir(tmp_path)
    for words in (["-o", "json", "check", "job.yaml"], ["check", "job.yaml", "-o", "json"]):
        assert json.loads(CliRunner().invoke(app, words).stdout)["ok"] is True


# --- completion
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_completion_for_each_shell(shell: str) -> None:
    command = [sys.executable, "-m", "trainyard.cli"]
    environment = {**os.environ, "_TRAINYARD_COMPLETE": f"source_{shell}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "trainyard" in done.stdout


def test_completion_of_runs_says_nothing_where_there_is_no_yard() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {
        "_TRAINYARD_COMPLETE": "complete_bash",
        "COMP_WORDS": "trainyard show dig",
        "COMP_CWORD": "2",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_REGION": "us-east-1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "trainyard.cli"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")
