"""The cloud assembly that `make deploy` deploys, synthesised only if something that it is made of has changed.

Synthesis takes most of the time of a deployment that changes nothing; whether anything is to be changed
CloudFormation's answers to `cdk deploy` decide, as ever.
"""

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from stacks.constructs.packages import FUNCTIONS, ROOT, SOFTWARE

SOURCES = (
    "app.py",
    "cdk.json",
    "stacks",
    "examples/images",
    "requirements",
    *FUNCTIONS,
    *SOFTWARE,
)
"""What the assembly is made of."""
SETTINGS = (ROOT / "cdk.context.json", Path.home() / ".cdk.json", ROOT / "requirements.txt")
"""Answers that AWS gave to `cdk`, a person's own context, the version of the library."""
STAMP = "made-of"
SYNTH = ("cdk", "synth", "--quiet", "--no-notices")


def is_current(folder: Path, account: str, arguments: Sequence[str]) -> bool:
    """Return True if the assembly in `folder` was made of today's sources and settings, for ACCOUNT/REGION."""
    stamp = folder / STAMP
    return stamp.exists() and stamp.read_text() == stamp_of(folder, account, arguments)


def mark_current(folder: Path, account: str, arguments: Sequence[str]) -> None:
    """Note what the assembly that was just synthesised is made of."""
    (folder / STAMP).write_text(stamp_of(folder, account, arguments))


def stamp_of(folder: Path, account: str, arguments: Sequence[str]) -> str:
    """What the assembly was made of, and what it is: somebody may have made another one there by hand."""
    templates = sorted(folder.glob("*.json"))
    total = hashlib.sha256(b"".join(hashlib.sha256(each.read_bytes()).digest() for each in templates))
    return f"{made_of(account, arguments)} {total.hexdigest()}"


def made_of(account: str, arguments: Sequence[str]) -> str:
    """What the assembly depends on, as one word."""
    settings = [each.read_text() if each.exists() else "" for each in SETTINGS]
    told = {name: value for name, value in sorted(os.environ.items()) if name.startswith("CDK_")}
    beside = json.dumps([account, [*arguments], settings, told, platform.python_version()])
    return hashlib.sha256(f"{fingerprint_of(ROOT / each for each in SOURCES)}{beside}".encode()).hexdigest()


def fingerprint_of(sources: Iterable[Path]) -> str:
    """One hash over names and contents of every source file; compiled files do not count."""
    files = sorted(
        file
        for source in sources
        for file in ([source] if source.is_file() else source.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    )
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.relative_to(ROOT)}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()
