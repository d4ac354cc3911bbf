"""Texts from programs, uploaded files and names of objects, made safe to print."""

import re
import unicodedata

COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Control sequences of ECMA-48, which color a line or move the cursor."""
HARMLESS = "\n\t"
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode's categories of characters that control a terminal, change the direction of a line, or are invisible."""
CONTROLS = {"Cc", "Cs"}
"""Unicode's categories of characters that no argument, variable or file name needs: control characters, and surrogates,
which UTF-8 cannot encode."""
CUT = " [...]"


def printable(text: str, most: int | None = None) -> str:
    """Return the text without colors, with a rewritten line (a progress bar) as several lines.

    Characters that are invisible or control a terminal become escapes (`\\u202e`). The text is cut after `most`
    characters.
    """
    text = re.sub(r"\r\n?", "\n", COLOURS.sub("", text).replace("\b", ""))
    if most is not None and len(text) > most:
        text = text[: most - len(CUT)] + CUT
    if text.isascii() and text.replace("\n", " ").replace("\t", " ").isprintable():
        return text
    return "".join(each if is_harmless(each) else _escape(each) for each in text)


def has_controls(text: str, allowed: str = "") -> bool:
    """Return True if the text contains a control character other than those in `allowed`. Texts of all scripts pass:
    joiners of emoji, spaces of any width and direction marks are not control characters."""
    if text.isascii() and text.isprintable():
        return False
    return any(unicodedata.category(each) in CONTROLS and each not in allowed for each in text)


def is_harmless(character: str) -> bool:
    return character in HARMLESS or unicodedata.category(character) not in HIDDEN


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
