"""File names as keys of the bucket: which names S3 can store, and a report of the files that it cannot."""

import os
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

LONGEST_KEY_BYTES = 1024
"""https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html"""
NAMED_AT_MOST = 20
"""Files that a run's log names one by one; the log counts the others."""
NOT_IN_XML = {"\ufffe", "\uffff"}
"""Characters that XML 1.0 cannot hold: S3 lists and deletes objects in XML."""


def fault_of(key: str) -> str | None:
    """Return the reason why the bucket cannot store an object under `key`; None if the bucket can."""
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size > LONGEST_KEY_BYTES:
        return f"its key has {size} bytes, and S3 allows {LONGEST_KEY_BYTES}"
    if any(unicodedata.category(character) == "Cc" or character in NOT_IN_XML for character in key):
        return "its name contains a control character"
    return None


def show_name(name: str) -> str:
    """Return the name with control characters and bytes outside UTF-8 as escapes, fit to print on one line."""
    text = os.fsencode(name).decode(errors="backslashreplace")
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


@dataclass(slots=True)
class LeftOut:
    """Files of one folder that the bucket does not store. Each is reported once, by name, in the run's log."""

    note: Callable[[str], None]
    """Writes a line into the run's log."""
    folder: str
    """The folder's name for users."""
    faults: dict[str, str] = field(default_factory=dict)
    """Each file that was left out, by its path below the folder, with the reason."""

    def keep(self, names: Iterable[str], prefix: str) -> list[str]:
        """Return the names that the bucket can store below `prefix`; report the others."""
        kept, new = [], {}
        for name in names:
            fault = fault_of(prefix + name)
            if fault is None:
                kept.append(name)
            elif name not in self.faults:
                new[name] = f"{fault}; rename it to keep it"
        self.report(new)
        return kept

    def report(self, faults: dict[str, str]) -> None:
        """Note files with the reason why each is left out. Skip files that were reported before."""
        new = {name: fault for name, fault in faults.items() if name not in self.faults}
        room = max(0, NAMED_AT_MOST - len(self.faults))
        self.faults |= new
        for name, fault in list(new.items())[:room]:
            self.note(f"{self.folder}/{show_name(name)} is left out: {fault}")
        if len(new) > room:
            self.note(f"{self.folder}/: {len(new) - room} more files are left out")
