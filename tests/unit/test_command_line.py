"""The commands in messages to users."""

import ast
import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainyard.cli.app import COMMANDS, GROUPS
from trainyard.cli.options import Options, Output
from trainyard.command_line import command_line, repeat_options, yard_options

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "trainyard/cli",
    "trainyard/client",
    "trainyard/ui",
    "trainyard/core/jobfile",
    "lambdas",
    "training/host",
)
COMMAND = re.compile(rf"\btrainyard ({'|'.join((*COMMANDS, *GROUPS))})\b")

ON_A_HOST = re.compile(r"\btrainyard (hold 2h|unhold)\b")
"""Commands on a host, which belongs to one yard."""
NOT_TYPED = {
    "# --- trainyard: dev hosts (trainyard dev code) ---": "the mark of a block in ~/.ssh/config",
    "trainyard dev ssh": "the reason that Session Manager records",
    "trainyard shell": "the reason that Session Manager records",
    "trainyard forward": "the reason that Session Manager records",
    "403: this page needs a token. Open the address that `trainyard ui` printed.\n": (
        "names the command that runs already"
    ),
}


@pytest.mark.parametrize(
    "word",
    ["uml läuft.yaml", "it's.yaml", "a*b?.yaml", "$HOME/x.yaml", "a;b", "", "plain.yaml", "läuft.yaml"],
)
def test_a_shell_reads_back_every_word(word: str) -> None:
    assert shlex.split(command_line("submit", word, "-d")) == ["trainyard", "submit", word, "-d"]


def test_plain_words_are_not_quoted() -> None:
    assert command_line("show", "@last", "--set", "a.b=.5") == "trainyard show @last --set a.b=.5"


def test_a_path_that_begins_with_a_dash_is_no_option() -> None:
    assert command_line("submit", Path("-x.yaml")) == "trainyard submit ./-x.yaml"


def test_the_options_of_this_command_are_repeated_and_no_others() -> None:
    options = Options(yard="Other yard", region="eu-central-1", output=Output.JSON, quiet=True)
    with repeat_options(options.words):
        assert command_line("ls") == "trainyard --yard 'Other yard' --region eu-central-1 ls"
    assert command_line("ls") == "trainyard ls"


def test_the_lines_of_every_thread_name_the_yard() -> None:
    """The page calls AWS in threads, and an agent runs its attempt in one."""
    with repeat_options(yard_options("other")), ThreadPoolExecutor(1) as threads:
        assert threads.submit(command_line, "ls").result() == "trainyard --yard other ls"
    assert command_line("ls") == "trainyard ls"


def test_functions_and_hosts_name_their_yard_unless_it_is_the_default_one() -> None:
    with repeat_options(yard_options("other")):
        assert command_line("why", "r") == "trainyard --yard other why r"
    with repeat_options(yard_options("Trainyard")):
        assert command_line("why", "r") == "trainyard why r"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_message_writes_a_command_by_hand(package: str) -> None:
    """Such a command would lack the user's --yard, and break at a space."""
    by_hand = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in sorted((ROOT / package).rglob("*.py"))
        for line, text in texts(ast.parse(file.read_text()))
        if COMMAND.search(ON_A_HOST.sub("", text)) and text not in NOT_TYPED
    ]
    assert by_hand == []


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each text that may be printed, without docstrings, help and examples of commands."""
    left_out = {id(part) for node in ast.walk(tree) for part in _not_printed(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.lineno, node.value


def _not_printed(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "command":
        for argument in node.args:
            yield from ast.walk(argument)
    if isinstance(node, ast.keyword) and node.arg == "help":
        yield from ast.walk(node.value)
