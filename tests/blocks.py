"""The fenced blocks of the docs and the commands in them.

Tests run each block unless a comment on the line before it gives a reason: `<!-- not run: REASON -->`, or
`<!-- not ours: TOOL -->` for the syntax of another tool. Readers of the page do not see these comments.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ("docs/decisions", "docs/interoperability.md")
"""Pages whose commands are not meant to be typed."""
STORY = (
    "docs/start-locally.md",
    "docs/tasks/submit.md",
    "docs/examples/one-change.md",
    "docs/tasks/follow.md",
    "docs/tasks/waiting-and-failing.md",
    "docs/tasks/stop-and-resume.md",
    "docs/tasks/results.md",
    "docs/tasks/models.md",
    "docs/tasks/python.md",
    "docs/tasks/cost.md",
    "docs/agents.md",
    "docs/tasks/upgrade.md",
    "docs/tasks/destroy.md",
)
"""The pages whose blocks are run on one yard, in this order (tests/e2e/own_cloud/test_docs.py)."""
SKILL = ROOT / "examples" / "agent-skill" / "SKILL.md"
MARK = re.compile(r"<!-- (not run|not ours): (.+?) -->")
SHELL = ("sh", "console")
SEPARATORS = re.compile(r"^[;&|(){}]+$")
REDIRECTION = re.compile(r"^[<>]+$")
ASSIGNED = re.compile(r"^[A-Za-z_]\w*=")
INNER = re.compile(r"\$\((.+)\)")
HERE = re.compile(r"<<'(\w+)'.*\n(?:.*\n)*?\1\n?")
KEYWORDS = frozenset("if then else elif fi for while until do done in !".split())  # noqa: SIM905


@dataclass(frozen=True)
class Block:
    """A fenced block, with the mark before it and the reason in the mark."""

    page: str
    line: int
    language: str
    text: str
    mark: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A simple shell command without variable assignments and redirections."""

    words: tuple[str, ...]
    may_fail: bool = False
    """True if `||` follows."""

    def __str__(self) -> str:
        return shlex.join(self.words)


def pages() -> list[str]:
    """Return the paths of all pages with commands."""
    found = [ROOT / "README.md", SKILL, *sorted((ROOT / "docs").rglob("*.md"))]
    names = [page.relative_to(ROOT).as_posix() for page in found]
    return [name for name in names if not name.startswith(RECORDS)]


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page from top to bottom."""
    found, mark = [], ("", "")
    for token in MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text()):
        if token.type == "html_block" and (match := MARK.fullmatch(token.content.strip())):
            mark = (match[1], match[2])
        elif token.type == "fence" and token.map:
            found.append(Block(page, token.map[0] + 1, token.info.split(" ")[0], token.content, *mark))
            mark = ("", "")
        elif token.nesting == 1 or token.type == "inline":
            assert not mark[0] or token.type != "inline", f"{page}: a mark without a block: {mark}"
    return found


def inline_of(page: str) -> list[str]:
    """Return the inline code of a page."""
    tokens = MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text())
    children = (child for token in tokens for child in token.children or ())
    return [child.content for child in children if child.type == "code_inline"]


def commands_in(script: str) -> Iterator[Command]:
    """Yield the simple commands of a script, including commands in `$(...)`."""
    script = HERE.sub("\n", script.replace("\\\n", " "))
    lexer = shlex.shlex(script.replace("\n", "\n;\n"), posix=True, punctuation_chars=True)
    lexer.commenters = "#"
    lexer.wordchars += "$@:,%+{}^[]\\"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not SEPARATORS.match(word):
            words.append(word)
            continue
        yield from _command(words, may_fail=word == "||")
        words = []


def _command(words: list[str], *, may_fail: bool) -> Iterator[Command]:
    for word in words:
        for inner in INNER.findall(word):
            yield from commands_in(inner)
    kept: list[str] = []
    skipped = False
    for word in words:
        if skipped or REDIRECTION.match(word):
            skipped = not skipped
        elif kept or not (word in KEYWORDS or ASSIGNED.match(word)):
            kept.append(word)
    if kept and words[0] != "for":
        yield Command(tuple(kept), may_fail)
