"""The cloud assembly that `make deploy` deploys. It is synthesized again only if one of its sources has changed.

Synthesis takes most of the time of an unchanged deployment. CloudFormation still decides what `cdk deploy` changes.
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
"""Sources of the assembly."""
SETTINGS = (ROOT / "cdk.context.json", Path.home() / ".cdk.json", ROOT / "requirements.txt")
"""Cached answers of AWS for `cdk`, the user's own context, and the version of the library."""
STAMP = "made-of"
SYNTH = ("cdk", "synth", "--quiet", "--no-notices")


def is_current(folder: Path, account: str, arguments: Sequence[str]) -> bool:
    """Return True if the assembly in `folder` was made from the current sources and settings, for ACCOUNT/REGION."""
    stamp = folder / STAMP
    return stamp.exists() and stamp.read_text() == fingerprint(folder, account, arguments)


def mark_current(folder: Path, account: str, arguments: Sequence[str]) -> None:
    """Record the sources of the assembly after its synthesis."""
    (folder / STAMP).write_text(fingerprint(folder, account, arguments))


def fingerprint(folder: Path, account: str, arguments: Sequence[str]) -> str:
    """Return a stamp of sources and content, because the user may have synthesized another assembly there."""
    templates = sorted(folder.glob("*.json"))
    total = hashlib.sha256(b"".join(hashlib.sha256(each.read_bytes()).digest() for each in templates))
    return f"{made_of(account, arguments)} {total.hexdigest()}"


def made_of(account: str, arguments: Sequence[str]) -> str:
    """Return a fingerprint of everything that determines the assembly."""
    settings = [each.read_text() if each.exists() else "" for each in SETTINGS]
    environment = {name: value for name, value in sorted(os.environ.items()) if name.startswith("CDK_")}
    beside = json.dumps([account, [*arguments], settings, environment, platform.python_version()])
    return hashlib.sha256(f"{fingerprint_of(ROOT / each for each in SOURCES)}{beside}".encode()).hexdigest()


def fingerprint_of(sources: Iterable[Path]) -> str:
    """Return a hash over names and contents of all source files, without compiled files."""
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
