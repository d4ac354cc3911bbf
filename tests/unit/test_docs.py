"""Each command in the docs exists, job files have no faults, and each block that is not run gives a reason.

tests/e2e/own_cloud/test_docs.py runs the pages of STORY from top to bottom on a yard.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import typer
import yaml
from botocore import xform_name
from typer.testing import CliRunner

from localcloud.cli.commands import app as localcloud
from tests.blocks import ROOT, SHELL, STORY, Block, Command, blocks_of, commands_in, inline_of, pages
from trainyard.cli.app import app
from trainyard.client.jobs import source
from trainyard.core.jobfile import recipe

PAGES = pages()
BLOCKS = {page: blocks_of(page) for page in PAGES}
EVERY = [block for blocks in BLOCKS.values() for block in blocks]
OURS = [block for block in EVERY if block.mark != "not ours"]
PLAIN = {
    "export",
    "eval",
    "cd",
    "ls",
    "cat",
    "echo",
    "grep",
    "mkdir",
    "printf",
    "read",
    "sleep",
    "git",
    "cdk",
    "pip",
}
"""Commands of other programs, which are not checked."""
OFFLINE = ("check", "init")
HIGH_LEVEL = {"s3": {"cp"}, "cloudformation": set[str](), "ssm": set[str]()}
"""Commands that the aws command adds to AWS's actions."""
GLOBAL = {"query", "output", "region", "profile"}
NOT_RUN = {
    "README.md": 1,
    "docs/images.md": 3,
    "docs/job-file.md": 1,
    "docs/local-cloud.md": 3,
    "docs/patrol.md": 2,
    "docs/permissions.md": 1,
    "docs/platform.md": 2,
    "docs/programs.md": 2,
    "docs/examples/digits-study.md": 2,
    "docs/examples/downpour.md": 1,
    "docs/examples/evaluator.md": 1,
    "docs/examples/jax.md": 2,
    "docs/examples/keras-text.md": 3,
    "docs/examples/matmul.md": 1,
    "docs/examples/mnist.md": 3,
    "docs/examples/mnist-study.md": 2,
    "docs/examples/model-parallel.md": 1,
    "docs/examples/one-change.md": 2,
    "docs/examples/pool.md": 1,
    "docs/examples/parameter-server-v1.md": 1,
    "docs/examples/pytorch.md": 1,
    "docs/examples/replicate.md": 1,
    "docs/runbook.md": 2,
    "docs/simulation.md": 1,
    "docs/start-locally.md": 1,
    "docs/start-on-aws.md": 2,
    "docs/tasks/containers.md": 4,
    "docs/tasks/file-systems.md": 1,
    "docs/tasks/destroy.md": 1,
    "docs/tasks/notifications.md": 1,
    "docs/tasks/on-a-host.md": 1,
    "docs/tasks/dev-hosts.md": 4,
    "docs/tasks/models.md": 1,
    "docs/tasks/python.md": 2,
    "docs/tasks/results.md": 1,
    "docs/tasks/schedules.md": 2,
    "docs/tasks/studies.md": 4,
    "docs/tasks/submit.md": 1,
    "docs/tasks/trackers.md": 1,
    "docs/tasks/upgrade.md": 1,
    "docs/tasks/waiting-and-failing.md": 2,
    "docs/ui.md": 1,
}
"""The number of blocks of each page that are not run. A comment above each block gives the reason."""
NOT_OURS = {
    "docs/coming-from/dstack.md": 1,
    "docs/coming-from/others.md": 1,
    "docs/coming-from/sagemaker.md": 1,
    "docs/coming-from/skypilot.md": 1,
    "docs/coming-from/tuning.md": 2,
    "docs/local-cloud.md": 1,
    "docs/tasks/github-action.md": 1,
}


# --- marks
def test_the_blocks_that_are_not_run_are_these() -> None:
    assert counted("not run") == NOT_RUN
    assert counted("not ours") == NOT_OURS


def counted(mark: str) -> dict[str, int]:
    return dict(Counter(block.page for block in EVERY if block.mark == mark))


def test_what_is_neither_run_nor_marked_is_read_by_another_test() -> None:
    """docs/cli.md is generated from the command, and programs.md shows files of examples/."""
    left = [block for block in OURS if block.language in (*SHELL, "python") and not block.mark]
    unseen = [block for block in left if block.page not in STORY and not is_read_elsewhere(block)]
    assert [str(block) for block in unseen] == []


def is_read_elsewhere(block: Block) -> bool:
    lines = (ROOT / block.page).read_text().splitlines()
    if block.page == "docs/cli.md":  # tests/unit/cli/test_reference.py
        return "<!-- commands: begin -->" in lines[: block.line]
    shown = re.fullmatch(
        r"`(examples/(?:programs|embedded)/\w+\.py)`", lines[block.line - 3]
    )  # test_programs_page.py
    return shown is not None and (ROOT / shown[1]).read_text() == block.text


def test_a_reason_names_tests_that_there_are() -> None:
    named = [file for block in EVERY for file in re.findall(r"\btests/[\w/]+(?:\.py)?", block.reason)]
    assert len(named) > 10
    assert [file for file in named if not (ROOT / file).exists()] == []


def test_every_language_is_one_that_is_looked_at() -> None:
    assert {block.language for block in EVERY} <= {*SHELL, "python", "yaml", "json", "text", ""}


# --- commands
COMMANDS = [
    (str(block), command) for block in OURS if block.language in SHELL for command in commands_in(block.text)
]
NAMED = [
    (page, command)
    for page in PAGES
    for text in inline_of(page)
    if re.match(r"(trainyard|make) [a-z@]", text) and "..." not in text
    for command in commands_in(text)
]


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS[page]])
def test_every_command_is_one_that_there_is(page: str) -> None:
    """A command within a sentence may lack its arguments."""
    on_page = [(place, command) for place, command in COMMANDS if place.partition(":")[0] == page]
    found = [f"{place}: {command}: {fault}" for place, command in on_page for fault in faults_of(command)]
    named = [command for place, command in NAMED if place == page]
    found += [
        f"{command}: {fault}"
        for command in named
        for fault in faults_of(command)
        if "Missing argument" not in fault
    ]
    assert [fault for fault in found if "does not exist" not in fault] == []


def faults_of(command: Command) -> Iterator[str]:
    first, *rest = command.words
    match first:
        case "trainyard":
            yield from parsed(app, rest)
        case "make":
            targets = [word for word in rest if "=" not in word]
            yield from (f"no target {word}" for word in targets if word not in make_targets())
        case "aws":
            yield from aws_faults(*rest)
        case _ if first.endswith("python"):
            yield from python_faults(rest)
        case _ if first not in PLAIN:
            yield "unknown command"


def parsed(commands: typer.Typer, words: list[str]) -> Iterator[str]:
    """Yield the error of parsing these words, without running the command."""
    command = made(commands)
    context = None
    try:
        while True:
            context = command.make_context(command.name or "trainyard", list(words), parent=context)
            if not hasattr(command, "commands"):
                return
            _, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
    except typer.Exit:
        return  # --version, --help
    except Exception as wrong:
        if not hasattr(wrong, "format_message"):
            raise
        yield wrong.format_message()


@cache
def made(commands: typer.Typer) -> Any:
    return typer.main.get_command(commands)


@cache
def make_targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def python_faults(words: list[str]) -> Iterator[str]:
    match words:
        case ["-m", "localcloud", *rest]:
            yield from parsed(localcloud, rest)
        case ["-m", module, *_]:
            place = ROOT.joinpath(*module.split("."))
            if not (place.with_suffix(".py").exists() or (place / "__main__.py").exists()):
                yield f"there is no module {module}"
        case ["-c", program]:
            compile(program, "-c", "exec")
        case [script] if (ROOT / "examples" / "programs" / script).exists():
            return
        case _:
            yield "neither a module nor a script of examples/programs"


def aws_faults(service: str, action: str, *words: str) -> Iterator[str]:
    if action in HIGH_LEVEL.get(service, ()):
        return
    model = botocore.session.get_session().get_service_model(service)
    actions = {xform_name(name, "-"): name for name in model.operation_names}
    if action not in actions:
        yield f"{service} has no action {action}"
        return
    shape = model.operation_model(actions[action]).input_shape
    known = {xform_name(name, "-") for name in shape.members} if shape else set()
    options = {word.removeprefix("--") for word in words if word.startswith("--")}
    yield from (f"no option --{option}" for option in sorted(options - known - GLOBAL))


def test_a_command_that_is_wrong_is_found() -> None:
    wrong = {
        "trainyard sumbit job.yaml": "No such command",
        "trainyard submit job.yaml --sett a=1": "No such option",
        "trainyard submit": "Missing argument",
        "trainyard ls -n many": "a valid integer",
        "trainyard ls && make dmeo": "no target dmeo",
        'echo "$(trainyard local upp)"': "No such command",
        "aws ec2 describe-instance": "has no action",
        "aws ec2 describe-instances --filter x": "no option --filter",
        "python -m training.programs.digitts": "no module",
        "kubectl get pods": "unknown command",
    }
    for script, fault in wrong.items():
        found = [each for command in commands_in(script) for each in faults_of(command)]
        assert len(found) == 1, script
        assert fault in found[0]


# --- commands without a cloud are run
@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun")
    assert CliRunner().invoke(app, ["init", str(folder)]).exit_code == 0
    (folder / "src" / "requirements.txt").write_text("")
    for framework in ("pytorch", "jax"):
        shutil.copytree(ROOT / "examples" / "frameworks" / framework, folder / framework)
    shutil.copytree(ROOT / "examples" / "programs", folder / "programs")
    return folder


def test_every_check_and_init_does_what_the_page_says(
    begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline = {
        command for _, command in COMMANDS if command.words[0] == "trainyard" and command.words[1] in OFFLINE
    }
    assert len(offline) > 5
    for number, command in enumerate(sorted(offline, key=str)):
        folder = begun if command.words[1] == "check" else tmp_path / str(number)
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        done = CliRunner().invoke(app, [*command.words[1:]])
        assert done.exit_code == (3 if command.may_fail else 0), f"{command}: {done.output}"


# --- job files, JSON and Python
@pytest.mark.parametrize("block", [each for each in OURS if each.language == "yaml"], ids=str)
def test_every_job_file_and_recipe_has_no_fault(block: Block, begun: Path) -> None:
    given = yaml.safe_load(block.text)
    if given is None:
        return  # a line for editors
    if given.keys() & {"tensorflow", "containers"}:
        assert isinstance(recipe.parse(block.text.encode(), source=str(block)), recipe.Recipe)
        return
    file = begun / "of-the-page.yaml"
    whole = given.get("name") is not None
    file.write_text(block.text if whole else f"name: of-the-page\n{block.text}")
    source.read(file)


@pytest.mark.parametrize("block", [each for each in OURS if each.language == "json"], ids=str)
def test_every_json_document_is_one(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", [each for each in EVERY if each.language == "python"], ids=str)
def test_every_program_is_python(block: Block) -> None:
    compile(block.text, str(block), "exec")


def test_the_glossary_has_at_most_thirty_words_in_alphabetical_order() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
    assert words == sorted(words)
    assert 20 <= len(words) <= 30
