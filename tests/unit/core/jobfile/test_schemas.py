"""Editors' schemas, the reader of job files, and the table of docs/job-file.md agree."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import bad_input, quick
from tests.support.job_files import BAD, EVALUATED, SERVERS, SHIPPED, SMALLEST
from tests.support.recipes import WHOLE, WRONG
from tests.support.schemas import Validator, accepts
from tests.unit.core.builders import BUCKET
from tests.unit.core.jobfile.reference import INPUTS_PAGE, PAGE, ROOT, inputs, page, schemas, table
from trainyard.core.jobfile import check, document, recipe
from trainyard.core.jobfile.recipe import Recipe
from trainyard.core.model.job import Job
from trainyard.values.fields import keys
from trainyard.values.mappings import Record

JOB, RECIPE = (json.loads(text) for text in schemas().values())
RECIPES = sorted((ROOT / "examples" / "images").glob("*.yaml"))


def faults(given: Any) -> list[str]:
    found = check.check(given, source="jobs/x.yaml", bucket=BUCKET)
    return [] if isinstance(found, Job) else [fault.problem for fault in found.faults]


@pytest.mark.parametrize("path", list(schemas()), ids=lambda path: path.name)
def test_a_schema_is_written_anew_with_its_declaration(path: Path) -> None:
    Validator.check_schema(json.loads(schemas()[path]))
    assert path.read_text() == schemas()[path], "make format"


def test_the_page_has_every_key() -> None:
    assert table() in PAGE.read_text(), "make format"


@pytest.mark.parametrize("path", [*SHIPPED, *RECIPES], ids=lambda path: path.name)
def test_a_shipped_file_names_its_schema_and_keeps_it(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    schema = path.parent / first.removeprefix("# yaml-language-server: $schema=")
    assert accepts(json.loads(schema.read_text()), document.read(path.read_bytes(), json_only=False))


UNSEEN = {
    # part of the message: why no schema can show the fault
    "is on the computer that submits": "the command sends it along, and writes where it is",
    "is in a git repository": "the command sends it along, and writes where it is",
    "maps to the variable": "no schema compares two keys",
    "source-elsewhere": "a schema does not know the yard's bucket",
    "found the number 2.0": "to JSON Schema 2.0 is an integer",
    "found the number nan": "JSON has no such number, and it is above no maximum",
    "which is above max": "no schema compares two keys",
    "which is above the disk of each host": "no schema compares two keys",
    "is allowed with mode stream only": "no schema compares two keys",
    "a folder is streamed by one entry": "no schema compares two keys",
    "programs only read the objects of S3": "no schema compares two keys",
    "Keras writes beside the files": "a schema has one declaration for all entries",
    "more parameter servers than workers": "no schema compares two keys",
    "; nearest: ": "no schema knows the types",
    "cannot be combined with hardware.instance_types": "no schema compares two keys",
    "has GPUs, m7i.xlarge has none": "no schema knows the types",
    "both-sorts-of-types": "no schema knows the types",
    "is also in program.environment": "no schema compares two keys",
    "is not a regular expression": "no schema reads regular expressions",
    "which RE2 does not support": "no schema reads regular expressions",
    "hosts are allowed together": "no schema adds up keys",
    "too-many": "no schema adds up keys",
    "; the run has ": "no schema adds up keys",
    "is allowed only with after.": "no schema compares two keys",
    "with pool.keep no policy is allowed": "no schema compares two keys",
    'did you mean "data.train"?': "no schema looks for the names of one mapping in another's values",
    '"${data.train}" is not a word': "no schema looks for the names of one mapping in another's values",
    "${data.trian}": "no schema looks for the names of one mapping in another's values",
    "${rank} has no value": "a schema that tells it from a plain $${rank} would have to count dollar signs",
    "${ps_hosts} needs": "a schema that tells it from a plain $${ps_hosts} would have to count dollar signs",
    "is a file of program.source, which is missing": "no schema knows which words of a command are files",
    "programs/nowhere.tar.gz": "only the bucket shows it",
    "programs/not-a.tar.gz": "only the bucket shows it",
    "data/nothing/": "only the bucket shows it",
    "too-few-files": "only the bucket shows it",
    "unaffordable": "only prices show it",
}  # fmt: skip


def unseen(*says: str) -> bool:
    return any(part in said for part in UNSEEN for said in says)


@pytest.mark.parametrize("given", [row[1] for row in BAD], ids=[f"{row[0]} {row[2]}" for row in BAD])
def test_a_bad_job_is_refused_as_far_as_a_schema_can(given: Any) -> None:
    assert accepts(JOB, json.loads(json.dumps(given))) is all(unseen(fault) for fault in faults(given))


END_TO_END = [bad for bad in bad_input.BAD if bad.changes is not None and bad.files is None]


@pytest.mark.parametrize("bad", END_TO_END, ids=lambda bad: bad.name)
def test_a_bad_file_of_the_whole_runs_too(bad: bad_input.Bad) -> None:
    assert accepts(JOB, quick.job(bad.name, **(bad.changes or {}))) is unseen(bad.name, *bad.says)


@pytest.mark.parametrize(("given", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_bad_recipe_is_refused(given: Any, said: str) -> None:
    assert not accepts(RECIPE, given)


def test_a_whole_recipe_is_accepted() -> None:
    assert accepts(RECIPE, document.read(WHOLE, json_only=False))


SOURCE = {"module": "train", "source": "s3://BUCKET/programs/x.tar.gz"}
BASES = [
    SMALLEST,
    SMALLEST | {"cluster": SERVERS, "program": SOURCE, "hardware": {"market": "on_demand"}},
    SMALLEST | {"cluster": {"workers": 3}, "data": {"train": "s3://BUCKET/data/t/"}},
    SMALLEST | {"cluster": EVALUATED, "hardware": {"cpu_roles": ["evaluator"]}},
]
ANYTHING = [
    None, True, False, 0, 1, -1, 0.5, 1e-9, 1e300, "", "x", "yes", "a\nb", "1", [], ["x"], [1], {}, {"x": 1},
    "s3://BUCKET/data/x/", "s3://BUCKET/programs/x.tar", "s3://BUCKET/data/../x/", "requirements.txt", "../x",
    "ami-0123456789abcdef0", "ami-1", "training.programs.mnist", "${role}", "${x}",
    {"train": "s3://BUCKET/data/x/"}, {"train": {"source": "s3://BUCKET/data/x/", "sharding": "file"}},
    {"train": {"source": "s3://BUCKET/data/x/", "sharding": None}}, {"train": {"sharding": "none"}},
    {"A": "x"}, {"A": "$${x}"}, {"A": "$$${role}"}, {"A": "${x}"}, {"A": "${role"}, {"PATH": "x"}, {"PATHS": "x"},
    {"AWS_X": "x"}, {"a": 0}, {"a": 1e-300}, {"a": -1e18}, {"a": -1e19}, {"a": [1]}, {"a": "x" * 1025},
]  # fmt: skip


def candidates(schema: dict[str, Any]) -> list[Any]:
    """Return values to try for a key: of every type, each allowed word, and both sides of each bound."""
    bounds = [schema[each] for each in ("minimum", "maximum") if each in schema]
    words = [*schema.get("enum", []), *schema.get("items", {}).get("enum", [])[:12]]
    lists = [words[:1], words[:2], words[:1] * 2, words[:10], words[:11]]
    near = [bound + step for bound in bounds for step in (-1, 0, 1)]
    return [*ANYTHING, *words, *lists, *near]


def sections() -> Iterator[tuple[str | None, str, dict[str, Any]]]:
    """Yield section, key and schema of every key."""
    for name, each in keys(Job).items():
        schema = JOB["properties"][name]
        if isinstance(each.kind, Record):
            yield from ((name, key, inner) for key, inner in schema["properties"].items())
        yield None, name, schema


def changed(base: dict[str, Any], section: str | None, key: str, value: object) -> dict[str, Any]:
    if section is None:
        return base | {key: value}
    return base | {section: base.get(section, {}) | {key: value}}


@pytest.mark.parametrize(
    ("section", "key", "schema"), list(sections()), ids=lambda each: each if isinstance(each, str) else ""
)
def test_schema_and_reader_agree_on_every_key(section: str | None, key: str, schema: dict[str, Any]) -> None:
    for base in BASES:
        for value in candidates(schema):
            given = changed(base, section, key, value)
            assert accepts(JOB, given) is all(unseen(fault) for fault in faults(given)), f"{given}"


@pytest.mark.parametrize("of", [Job, Recipe])
def test_a_default_is_what_counts_when_its_key_is_omitted(of: type) -> None:
    schema, smallest = (JOB, SMALLEST) if of is Job else (RECIPE, {"name": "gpu"})
    for name, section in schema["properties"].items():
        needs_more = bool(section.get("required")) and name not in smallest
        for key, inner in section.get("properties", {name: section}).items():
            if "default" in inner and not needs_more:
                given = changed(
                    smallest, name if key in section.get("properties", {}) else None, key, inner["default"]
                )
                made, usual = (
                    check.check(each, source="x", bucket=BUCKET)
                    if of is Job
                    else recipe.check(each, source="x")
                    for each in (given, smallest)
                )
                assert made == usual, (name, key)


def test_the_page_has_the_inputs_of_every_state_machine() -> None:
    """`make format` updates the page."""
    assert INPUTS_PAGE.read_text() == page(INPUTS_PAGE.read_text(), inputs())
    documents = {path.name.partition(".")[0] for path in (ROOT / "lambdas/workflows").glob("*.asl.json")}
    documents -= {"version"}  # the client and functions start it, and no user by hand
    assert set(re.findall(r"^## ([\w-]+)$", inputs(), re.MULTILINE)) == documents
