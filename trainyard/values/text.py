"""Text that others have written (programs, uploaded files, names of objects), as it may be shown to people."""

import re
import unicodedata

COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""What programs print to colour a line or to move about on a screen: ECMA-48's control sequences."""
HARMLESS = "\n\t"
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode's categories of what a terminal obeys, or what turns a line around, or what nobody can see."""
CONTROLS = {"Cc", "Cs"}
"""Unicode's categories of characters that no argument, variable or file name needs: control characters, and halves of
characters, which UTF-8 cannot hold."""
CUT = " [...]"


def printable(text: str, most: int | None = None) -> str:
    """The text without colours, a line that is written over (a progress bar) as several; what else cannot be seen, or
    makes a terminal do something, as its escape (`\\u202e`). Cut after `most` characters."""
    text = re.sub(r"\r\n?", "\n", COLOURS.sub("", text).replace("\b", ""))
    if most is not None and len(text) > most:
        text = text[: most - len(CUT)] + CUT
    if text.isascii() and text.replace("\n", " ").replace("\t", " ").isprintable():
        return text
    return "".join(each if is_harmless(each) else _escaped(each) for each in text)


def has_controls(text: str, allowed: str = "") -> bool:
    """Return True if a control character is in the text other than the `allowed` ones. Text of any script has none:
    joiners of emoji, spaces of any width and marks that turn the direction are text."""
    if text.isascii() and text.isprintable():
        return False
    return any(unicodedata.category(each) in CONTROLS and each not in allowed for each in text)


def is_harmless(character: str) -> bool:
    return character in HARMLESS or unicodedata.category(character) not in HIDDEN


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
