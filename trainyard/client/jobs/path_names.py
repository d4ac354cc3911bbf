"""Names of files for shells, users, buckets and hosts."""

from __future__ import annotations

import os
import shlex

from trainyard.archives import DEEPEST, LONGEST_NAME, LONGEST_PART
from trainyard.client.jobs.ignores import OWN_IGNORE
from trainyard.values.text import has_controls


def shell_word(path: str) -> str:
    """Return the path as a shell word, whatever bytes it contains."""
    if is_plain(path):
        return shlex.quote(path)
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in "\\'" else f"\\{byte:03o}"
        for byte in os.fsencode(path)
    )
    return f"$'{escaped}'"


def ignore_file(shown: str) -> str:
    """Return the path of a folder's own ignore file, as a word for a shell."""
    return shell_word(f"{shown}/{OWN_IGNORE}")


def shown_path(path: str) -> str:
    """Return the path for users, with control characters and bytes that are not text as escapes."""
    return "".join(each if is_plain(each) else ascii(each)[1:-1].replace("\\udc", "\\x") for each in path)


def plain_name(name: str) -> str:
    """Return a similar name that every bucket and host can store."""
    text = os.fsencode(name)
    decoded = text.decode(errors="replace") if b"\0" in text else _decode(text)
    return "".join(each if is_plain(each) else "_" for each in decoded)


def name_problem(path: str) -> str | None:
    """Return why a bucket or host cannot store a file of this name."""
    name = path.rpartition("/")[2]
    if not _is_text(name):
        return "has a name that is not UTF-8 text, and that neither a bucket nor a host's log can hold"
    if not is_plain(name):
        return "has a control character in its name"
    if len(os.fsencode(name)) > LONGEST_PART or len(os.fsencode(path)) > LONGEST_NAME:
        return f"has a name that is too long (up to {LONGEST_PART} bytes, {LONGEST_NAME} with its folders)"
    return f"is more than {DEEPEST} folders deep" if path.count("/") >= DEEPEST else None


def _is_text(name: str) -> bool:
    return not any(0xD800 <= ord(each) <= 0xDFFF for each in name)


def is_plain(text: str) -> bool:
    return not has_controls(text)


def _decode(name: bytes) -> str:
    """Decode the name as UTF-8, or else as Latin-1."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("latin-1")
