"""The patterns that find a program's progress in its output.

Hosts match with RE2, whose time grows only with the length of a line, so a pattern cannot block a host. RE2 supports
less than Python's `re`; unsupported syntax is refused here before anything is launched.
"""

import re

MOST_CHARACTERS = 500
MOST_REPEATS = 1000
MOST_GROUPS = 16
"""Step, steps, epoch, loss, accuracy, and metrics under their own names."""
GROUPS = ("step", "steps", "epoch", "loss", "accuracy")
POSITIONS = ("step", "epoch")
"""The groups for the position in the training. A pattern needs one of them, because the progress of a program is
unknown without a position."""
EXAMPLE = r"step (?P<step>\d+).*loss (?P<loss>[\d.]+)"
PARTS = re.compile(
    r"""\\(?P<escape>.)
      | \[\^?\]?(?P<set>(?:\\.|[^\]\\])*)\]
      | \((?P<group>\?(?:P<\w+>|P[=>]|<[=!]|\w*:|\w+\)|.))?
      | (?P<repeat>[*+?]|\{\d*,?\d*\})(?P<mode>[?+]?)""",
    re.VERBOSE,
)
ESCAPES = re.compile(r"[dDwWsSbBAnrtfv]|[^A-Za-z0-9]")
ESCAPES_IN_SETS = re.compile(r"[dDwWsSnrtfv]|[^A-Za-z0-9]")
GROUP = re.compile(r"\?(P<\w+>|:|i\)|i:)")


def problem_with(pattern: str) -> str | None:
    """Return why hosts cannot use the pattern, or None if they can."""
    if len(pattern) > MOST_CHARACTERS:
        return f"has {len(pattern)} characters; up to {MOST_CHARACTERS} are allowed"
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, OverflowError, RecursionError) as error:
        return f"is not a regular expression: {error}"
    if len(groups) > MOST_GROUPS:
        return f"has {len(groups)} named groups; up to {MOST_GROUPS} are allowed"
    if not groups.keys() & set(POSITIONS):
        return (
            f"has no group for the step; a group named {' or '.join(POSITIONS)} is required, as in {EXAMPLE}"
        )
    strange = next((part[0] for part in PARTS.finditer(pattern) if not _is_known_to_re2(part)), None)
    return f"has {strange}, which RE2 does not support, and hosts match with RE2" if strange else None


def _is_known_to_re2(part: re.Match[str]) -> bool:
    if part["escape"]:
        return bool(ESCAPES.fullmatch(part["escape"]))
    if part["set"]:
        return all(map(ESCAPES_IN_SETS.fullmatch, re.findall(r"\\(.)", part["set"])))
    if part["group"]:
        return bool(GROUP.fullmatch(part["group"]))
    counts = map(int, re.findall(r"\d+", part["repeat"] or ""))
    return part["mode"] != "+" and all(count <= MOST_REPEATS for count in counts)
