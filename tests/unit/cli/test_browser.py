"""Opening a page keeps its token out of every command line."""

import re
import threading
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from tests.contract.conftest import eventually
from trainyard.cli import browser

ADDRESS = "http://127.0.0.1:8780/#token=s3cret-_&\"'<x>"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, and a browser that keeps its command line, the file's rights, and what it read."""
    kept = tmp_path / "kept"
    kept.mkdir()
    program = tmp_path / "browser"
    program.write_text(
        "#!/bin/sh\n"
        f'tr "\\0" " " </proc/$$/cmdline >{kept}/command\nenv >{kept}/environment\n'
        f'file="${{1#file://}}"\nstat -c %a "$file" >{kept}/rights\ncp "$file" {kept}/page.part\n'
        f"mv {kept}/page.part {kept}/page\n"
    )
    program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("BROWSER", f"{program} %s")
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setattr(browser, "READ_SECONDS", 2.0)
    return home


def test_the_token_is_in_a_file_that_its_user_alone_reads(home: Path, tmp_path: Path) -> None:
    opening = threading.Thread(target=browser.open_page, args=(ADDRESS,))
    opening.start()
    page = tmp_path / "kept/page"
    eventually(page.exists)
    assert (tmp_path / "kept/rights").read_text().strip() == "600"
    for name in ("command", "environment"):
        assert "s3cret" not in (tmp_path / "kept" / name).read_text()
    opening.join()
    assert list(home.iterdir()) == [], "the file is removed once the browser has read it"
    (url,) = re.findall(r'content="0;url=([^"]*)"', page.read_text())
    assert url == "http://127.0.0.1:8780/#token=s3cret-_&amp;&quot;&#x27;&lt;x&gt;"
    command = (tmp_path / "kept/command").read_text()
    opened = Path(unquote(urlparse(command.split()[-1]).path))
    assert (opened.parent, opened.name.startswith(".")) == (home, False), "a sandboxed browser can read it"


def test_a_home_that_cannot_be_written_is_no_obstacle(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home / "missing"))
    browser.open_page(ADDRESS)
    assert (tmp_path / "kept/rights").read_text().strip() == "600"
