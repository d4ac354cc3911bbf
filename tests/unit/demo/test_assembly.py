"""The cloud assembly of a deployment is synthesized again only after a change of its sources."""

from pathlib import Path

import pytest

from scripts import assembly

ACCOUNT = "123456789012/us-east-1"


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a small tree of sources with a file of each kind."""
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "yard.py").write_text("one")
    (tmp_path / "context.json").write_text("{}")
    monkeypatch.setattr(assembly, "ROOT", tmp_path)
    monkeypatch.setattr(assembly, "SOURCES", ("stacks",))
    monkeypatch.setattr(assembly, "SETTINGS", (tmp_path / "context.json",))
    return tmp_path


def test_the_same_sources_and_settings_make_the_same(sources: Path) -> None:
    before = assembly.made_of(ACCOUNT, ["-c", "yard=Other"])
    (sources / "stacks" / "__pycache__").mkdir()
    (sources / "stacks" / "__pycache__" / "yard.pyc").write_text("compiled")
    assert assembly.made_of(ACCOUNT, ["-c", "yard=Other"]) == before


@pytest.mark.parametrize(
    "changed", ["source", "new file", "renamed", "context", "account", "arguments", "variable"]
)
def test_whatever_it_depends_on_makes_another(
    sources: Path, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, account, arguments = assembly.made_of(ACCOUNT, []), ACCOUNT, list[str]()
    match changed:
        case "source":
            (sources / "stacks" / "yard.py").write_text("two")
        case "new file":
            (sources / "stacks" / "more.py").write_text("")
        case "renamed":
            (sources / "stacks" / "yard.py").rename(sources / "stacks" / "other.py")
        case "context":
            (sources / "context.json").write_text('{"vpc": "vpc-1"}')
        case "account":
            account = "123456789012/eu-west-1"
        case "arguments":
            arguments = ["-c", "private=true"]
        case "variable":
            monkeypatch.setenv("CDK_CONTEXT_JSON", "{}")
    assert assembly.made_of(account, arguments) != before


def test_another_assembly_in_the_same_folder_is_not_taken_for_it(sources: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cdk.out"
    folder.mkdir()
    (folder / "Patrol.template.json").write_text("{}")
    before = assembly.fingerprint(folder, ACCOUNT, [])
    assert assembly.fingerprint(folder, ACCOUNT, []) == before
    (folder / "Patrol.template.json").write_text('{"Resources": {}}')
    assert assembly.fingerprint(folder, ACCOUNT, []) != before
