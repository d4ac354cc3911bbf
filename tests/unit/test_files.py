"""A file of the product has at most 400 lines, so that a reader has its subject in view."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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
CODE = {".py", ".js", ".css", ".html", ".sh"}
MOST_LINES = 400


def test_no_file_is_too_long() -> None:
    files = [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in CODE and "vendor" not in path.parts
    ]
    assert len(files) > 800
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}, (
        "split them by subject"
    )
