"""Values of another shape than the launcher's, and files that no launcher would take, never fail the command."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.client.importing.samples import FILES, draft_of
from trainyard.client.errors import NotImportable

OTHERS: tuple[Any, ...] = (5, -1, "x", "", True, [], ["x"], [{}], {}, {"a": 1}, None)


def changed(values: Any) -> Iterator[Any]:
    """Yield copies of the values, each with one value of another shape."""
    paths = [*_paths(values, ())]
    for path in paths:
        for other in OTHERS:
            copied = copy.deepcopy(values)
            holder = copied
            for part in path[:-1]:
                holder = holder[part]
            holder[path[-1]] = other
            yield copied


def _paths(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield (*path, key)
        yield from _paths(each, (*path, key))


@pytest.mark.parametrize(
    "name", ["sky.yaml", "tune.dstack.yml", "request.json", "definition.json", "job.json", "tuning.json"]
)
def test_a_value_of_any_shape_is_imported_or_refused(tmp_path: Path, name: str) -> None:
    imported = 0
    for values in changed(yaml.safe_load(FILES[name])):
        try:
            draft_of(tmp_path, f"a{Path(name).suffix}", json.dumps(values)).text("Imported.")
        except NotImportable:
            continue
        imported += 1
    assert imported > 100


@pytest.mark.parametrize(
    ("name", "text", "notes"),
    [
        ("a.yaml", "run: a\nenvs: [b]\nnum_nodes: two\n", {2: "expected a mapping", 3: "expected a number"}),
        ("a.yaml", "run: a\nnum_nodes: 2\nrun: b\n", {1: "line 3 has the same key"}),
        ("a.sh", "#SBATCH -t soon\npython train.py\n", {1: "not a duration"}),
        ("a.py", "TensorFlow(entry_point='a.py',\n max_run='long')\n", {2: "expected a number"}),
    ],
)
def test_a_misshapen_value_is_left_out_with_its_line(
    tmp_path: Path, name: str, text: str, notes: dict[int, str]
) -> None:
    found = {note.line: note.reason for note in draft_of(tmp_path, name, text).notes}
    assert {line: reason in found.get(line, "") for line, reason in notes.items()} == dict.fromkeys(
        notes, True
    )


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.yaml", "", "is empty"),
        ("a.yaml", "a: &a [*a]\nrun: x\n", "more than 100000 values"),
        ("a.yaml", f"envs: {'[' * 5000}", "nested too deeply"),
        ("a.yaml", "run: [a]\n", "has no `run` (line 1, run: expected a text"),
        ("a.py", "TensorFlow(**options)\n", "line 1, **options: `options` is not literal"),
    ],
)
def test_a_refusal_names_the_values_that_were_left_out(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    with pytest.raises(NotImportable) as refused:
        draft_of(tmp_path, name, text)
    assert reason in refused.value.what


def test_an_alias_of_many_aliases_is_refused_at_once(tmp_path: Path) -> None:
    lines = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(NotImportable, match="more than 100000 values"):
        draft_of(tmp_path, "a.yaml", "\n".join(("a0: &a0 [x]", *lines, "run: a")))


def test_keywords_in_a_mapping_of_the_file_are_read(tmp_path: Path) -> None:
    text = "options = {\n 'entry_point': 'a.py',\n 'hyperparameters': {'lr': 1, 'at': now()}}\nTensorFlow(**options)\n"
    draft = draft_of(tmp_path, "a.py", text)
    assert draft.job["program"]["args"] == {"lr": 1}
    assert [note.line for note in draft.notes if note.item == "hyperparameters.at"] == [3]
