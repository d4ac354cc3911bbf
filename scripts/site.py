"""Hooks of mkdocs (mkdocs.yml): folders in the navigation, files outside docs/, and links to them.

Links are written as they work in the repository, also `../examples/matmul.yaml`; in the site they lead to its copy.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from scripts import llms

ROOT = Path(__file__).resolve().parents[1]
EXTRA_FILES = {
    "trainyard/job.schema.json": "job.schema.json",
    "trainyard/recipe.schema.json": "recipe.schema.json",
    "action.yml": "action.yml",
}
"""Files of the repository that the site serves, with their paths in both. Editors fetch the schemas from there."""
SERVED_PATTERNS = ("examples/**/*", "jobs/*", "images/*.yaml")
"""Files that the site serves under their path in the repository."""
LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]+)")


def on_config(config: Any) -> Any:
    """Expand `folder/*.md` in the navigation, README.md first."""
    config.nav = _write_out(config.nav, Path(config.docs_dir))
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the files from outside docs/, and the pages for language models."""
    for source, place in list_served().items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    docs = Path(config.docs_dir)
    for name, text in (("llms.txt", llms.index), ("llms-full.txt", llms.full)):
        files.append(File.generated(config, name, content=text(config.nav, docs)))
    return files


def on_page_markdown(text: str, page: Any, config: Any, files: Files) -> str:
    """Redirect links out of docs/ to the site's copy. Other links stay, and the build reports them."""
    here = posixpath.dirname(page.file.src_uri)
    places = list_served()

    def led(link: re.Match[str]) -> str:
        place = places.get(posixpath.normpath(posixpath.join("docs", here, link[1])))
        return posixpath.relpath(place, here or ".") if place else link[1]

    return LINK.sub(led, text)


def list_served() -> dict[str, str]:
    """Return paths in the site by paths in the repository."""
    shown = (
        file.relative_to(ROOT).as_posix()
        for glob in SERVED_PATTERNS
        for file in sorted(ROOT.glob(glob))
        if file.is_file()
    )
    return EXTRA_FILES | {path: path for path in shown if "__pycache__" not in path}


def _write_out(entries: list[Any], docs: Path) -> list[Any]:
    return [_entry(entry, docs) for entry in entries]


def _entry(entry: Any, docs: Path) -> Any:
    if isinstance(entry, str):
        return entry
    ((title, inner),) = entry.items()
    if isinstance(inner, list):
        return {title: _write_out(inner, docs)}
    folder = posixpath.dirname(inner)
    names = sorted(
        (file.name for file in (docs / folder).glob("*.md")), key=lambda name: (name != "README.md", name)
    )
    return {title: [f"{folder}/{name}" for name in names]}
