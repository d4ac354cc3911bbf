"""Tags and keys are declared only in trainyard/protocol, and described in docs/contracts."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard.protocol import keys
from trainyard.protocol.tags import PREFIX, Tag

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = ROOT / "trainyard/protocol"
FOLDERS = (
    "trainyard",
    "lambdas",
    "training",
    "stacks",
    "localcloud",
    "simulation",
    "benchmarks",
    "scripts",
    "examples",
)
LITERAL = re.compile(rf"{PREFIX}(?! )|(?<!\w){keys.RUNS}")
"""A tag or a key of a run. `trainyard: ` is the beginning of a sentence."""
PAGE = ROOT / "trainyard/ui/app.py"
"""A file with addresses such as /runs/{run}, which are not keys."""


def texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the texts of a file without its docstrings."""
    docstrings = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


def literals(text: str) -> list[int]:
    """Return the lines that have a tag or a key as a literal."""
    return [node.lineno for node in texts(ast.parse(text)) if LITERAL.search(str(node.value))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_tag_and_no_key_of_a_run_is_written_outside_the_protocol(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if PROTOCOL not in path.parents and path != PAGE
        for line in literals(path.read_text())
    ]
    assert found == [], "use trainyard.protocol.tags.Tag and trainyard.protocol.keys"


@pytest.mark.parametrize(
    ("sentence", "text", "lines"),
    [
        ("a tag", 'tags["trainyard:run"]', [1]),
        ("a filter", '{"Name": "tag:trainyard:run"}', [1]),
        ("the prefix", 'f"trainyard:{word}"', [1]),
        ("a key", '\nf"runs/{run}/job.json"', [2]),
        ("the folder of runs", 'read(bucket, "runs/")', [1]),
        ("a key behind a bucket", 'f"s3://{bucket}/runs/{run}/"', [1]),
        ("a sentence", 'print(f"trainyard: {said}")', []),
        ("a docstring", 'def run():\n    """What runs/ holds."""', []),
    ],
)
def test_a_literal_is_found(sentence: str, text: str, lines: list[int]) -> None:
    assert literals(text) == lines, sentence


@pytest.mark.parametrize("tag", [value for value in vars(Tag).values() if str(value).startswith(PREFIX)])
def test_the_contract_of_tags_has_every_tag(tag: str) -> None:
    pages = [(ROOT / "docs/contracts" / name).read_text() for name in ("tags.md", "images.md")]
    assert any(re.search(rf"{re.escape(tag)}(?![a-z]*-)", page) for page in pages) or f"{tag}<" in pages[0]


def test_the_builders_script_reads_the_tag_of_the_lease() -> None:
    assert f"/tags/instance/{Tag.LEASE}" in (ROOT / "stacks/workflows/bake/builder.sh").read_text()


GIVEN = {"folder": keys.PROGRAMS, "user": "ANY"}
"""The arguments of functions for keys. Every other argument is ANY."""
KEYS = {
    name: function(*(GIVEN.get(each, "ANY") for each in inspect.signature(function).parameters))
    for name, function in inspect.getmembers(keys, inspect.isfunction)
} | {"credentials": keys.credentials("ANY:ANY")}


@pytest.mark.parametrize("name", KEYS)
def test_the_contract_of_the_bucket_has_every_key(name: str) -> None:
    """bucket.md names keys below runs/<id>/; keys of bakes and lost signals are on other pages."""
    pages = "".join(
        (ROOT / "docs/contracts" / page).read_text() for page in ("bucket.md", "images.md", "signals.md")
    )
    key = KEYS[name].removeprefix(keys.run("ANY")) or KEYS[name]
    assert re.search(rf"[`/]{re.escape(key)}", re.sub(r"<[^>]+>|(?<=/)\*(?=/)", "ANY", pages))
