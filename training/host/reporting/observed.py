"""What is seen of a program that reports nothing itself: by the job's pattern in the lines that it prints."""

import re2

from training.host.errors import ProgramFault
from training.host.program.tracebacks import AGENTS_OWN

LONGEST = 2000
"""Characters of a line that are looked at."""


class PrintedProgress:
    """`program.progress` of a job. RE2 matches in time that grows with the line's length alone."""

    def __init__(self, pattern: str) -> None:
        """Raises ProgramFault where RE2 does not take it."""
        options = re2.Options()
        options.log_errors = False
        try:
            self._pattern = re2.compile(pattern, options)
        except re2.error as error:
            why = error.args[0].decode(errors="replace")
            raise ProgramFault(
                f"program.progress is no pattern for RE2, by which hosts match: {why}; correct it, and start again"
            ) from error

    def facts(self, line: str) -> dict[str, float]:
        """Numbers by name, as the program may print them: nothing is checked. Lines of the agent's own have none."""
        found = None if line.startswith(AGENTS_OWN) else self._pattern.search(line[:LONGEST])
        if not found:
            return {}
        named = {name: number(text) for name, text in found.groupdict().items() if text}
        known = {name: value for name, value in named.items() if value is not None}
        return (
            {"step": known["epoch"]} if "epoch" in known and "step" not in self._pattern.groupindex else {}
        ) | known


def number(text: str) -> float | None:
    """The number that a text is, if it is one."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
