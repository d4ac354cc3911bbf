"""The documentation as a site: it builds without a warning, and loads nothing from elsewhere."""

import hashlib
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scripts import llms

ROOT = Path(__file__).resolve().parents[2]
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
"""Elements that a browser loads by itself, with the attribute."""
SHIM = "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609"
"""The SHA-256 of iframe-worker 1.0.4."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Fetched(HTMLParser):
    """Resources that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in FETCHED and given.get("rel") not in ("canonical", "next", "prev"):
            self.addresses.append(given.get(FETCHED[tag]) or "")


def test_nothing_comes_from_another_place(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        seen = Fetched()
        seen.feed(page.read_text())
        away = [each for each in seen.addresses if re.match(r"(https?:)?//", each)]
        assert away == [], page
        assert "mermaid" not in page.read_text()  # which the theme would fetch from a CDN


def test_styles_fetch_nothing_from_another_place(site: Path) -> None:
    styles = sorted(site.rglob("*.css"))
    assert styles
    assert [each for each in styles if re.search(r"url\([\"']?(https?:)?//", each.read_text())] == []


def test_editors_find_the_schemas_at_the_root(site: Path) -> None:
    for name in ("job.schema.json", "recipe.schema.json"):
        assert json.loads((site / name).read_text()) == json.loads((ROOT / "trainyard" / name).read_text())


def test_search_finds_a_task_also_in_a_site_that_is_read_from_a_disk(site: Path) -> None:
    """From a disk, a page may neither load the index nor start a worker. The plugin `offline` provides the index as
    a script, and the unchanged shim of npm replaces the worker."""
    found = json.loads((site / "search" / "search_index.js").read_text().removeprefix("var __index = "))[
        "docs"
    ]
    assert any(each["location"].startswith("tasks/stop-and-resume.html") for each in found)
    assert hashlib.sha256((site / "assets" / "iframe-worker" / "shim.js").read_bytes()).hexdigest() == SHIM
    assert 'src="assets/iframe-worker/shim.js"' in (site / "index.html").read_text()


def test_the_python_reference_is_that_of_the_docstrings(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text()
    for name in (
        "client.yard.Yard.submit",
        "client.run.Run.logs",
        "client.errors.RunFailed",
        "client.yard.Yard.find",
    ):
        assert f'id="trainyard.{name}"' in page, name


def test_language_models_find_every_command_and_page(site: Path) -> None:
    short, whole = (site / "llms.txt").read_text(), (site / "llms-full.txt").read_text()
    for words, command in llms.commands():
        assert f"- `{' '.join(words)}" in short
        assert " ".join(command.help.split()) in short
    linked = re.findall(r"\]\(([^)]+\.html)\)", short)
    assert {"programs.html", "tasks/stop-and-resume.html", "job-file.html"} <= set(linked)
    assert [each for each in linked if "://" not in each and not (site / each).exists()] == []
    assert "# Stop and resume" in whole
    assert len(short) < 40_000  # a page that fits into every context


def test_links_to_files_beside_the_pages_lead_to_copies(site: Path) -> None:
    page = (site / "tasks" / "python.html").read_text()
    assert 'href="../examples/notebook.ipynb"' in page
    assert (site / "examples" / "notebook.ipynb").exists()
