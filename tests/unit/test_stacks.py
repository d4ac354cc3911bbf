"""Files and folders of stacks stay short."""

from pathlib import Path

import pytest

STACKS = Path(__file__).resolve().parents[2] / "stacks"
WORKFLOWS = ("bake", "dev-host", "retire", "snapshot", "study", "train", "version")


def test_no_file_is_longer_than_200_lines() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in STACKS.rglob("*.py")}
    assert lengths
    assert not {str(path.relative_to(STACKS)): lines for path, lines in lengths.items() if lines > 200}


def test_no_folder_shows_more_than_twelve_things() -> None:
    for folder in (STACKS, *(path for path in STACKS.rglob("*") if path.is_dir())):
        seen = [path.name for path in folder.iterdir() if not path.name.startswith("__")]
        assert len(seen) <= 12, (folder.name, seen)


def test_every_state_machine_has_a_construct() -> None:
    documents = (STACKS.parent / "lambdas/workflows").glob("*.asl.json")
    assert sorted(path.name.partition(".")[0] for path in documents) == list(WORKFLOWS)


@pytest.mark.parametrize("word", WORKFLOWS)
def test_a_workflows_construct_is_named_as_the_workflow(word: str) -> None:
    name = word.replace("-", "_")
    (module,) = (
        path
        for path in (STACKS / "workflows").rglob("*.py")
        if path.stem == name or (path.stem == "__init__" and path.parent.name == name)
    )
    text = module.read_text()
    assert f"class {word.title().replace('-', '')}(Workflow):" in text
    assert f'word = "{word}"' in text
