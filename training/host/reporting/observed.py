"""The progress of a program without reports, found by the job's pattern in its output."""

import re2

from training.host.errors import ProgramFault
from training.host.program.tracebacks import AGENTS_OWN
from training.host.reporting import reading
from training.host.reporting.scalars import Scalar
from training.host.reporting.words import ASIDE

LONGEST = 2000
"""Most characters of a line that are read."""


class PrintedProgress:
    """The pattern `program.progress` of a job. The time of a match with RE2 grows only with the line's length."""

    def __init__(self, pattern: str) -> None:
        """Compile the pattern. Raises ProgramFault if RE2 refuses it."""
        options = re2.Options()
        options.log_errors = False
        try:
            self._pattern = re2.compile(pattern, options)
        except re2.error as error:
            why = error.args[0].decode(errors="replace")
            raise ProgramFault(
                f"program.progress is not a valid pattern of RE2, which hosts use: {why}; correct it and start again"
            ) from error

    def metrics(self, line: str) -> dict[str, float]:
        """Return the unchecked numbers in a line by name. Lines of the agent have none."""
        found = None if line.startswith(AGENTS_OWN) else self._pattern.search(line[:LONGEST])
        if not found:
            return {}
        named = {name: number(text) for name, text in found.groupdict().items() if text}
        known = {name: value for name, value in named.items() if value is not None}
        return (
            {"step": known["epoch"]} if "epoch" in known and "step" not in self._pattern.groupindex else {}
        ) | known


class PrintedMetric:
    """One metric in the program's output, as in `val_accuracy: 0.93`, `'val_accuracy': 0.93` or `val_accuracy=0.93`. A
    number after a word such as `best` is not its value now."""

    def __init__(self, name: str) -> None:
        number = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|nan|NaN|[-+]?inf"
        before, after = r"(?:^|[^A-Za-z0-9_./-])", r"(?:[^A-Za-z0-9_.%]|\.?$|\.[^0-9])"
        self.name = name
        self._epoch: int | None = None
        self._counts_from_zero = False
        self._pattern = re2.compile(
            rf"(?:(?P<word>[A-Za-z]+)[ _:]*)?{before}{re2.escape(name)}['\"]?\s*[:=]?\s*(?P<number>{number}){after}"
        )

    def read(self, line: str) -> Scalar | None:
        """Return the last value in a line, with the step or the epoch that the line names, or an earlier line."""
        if "poch" in line and (epoch := reading.epoch_in(line[:LONGEST])) is not None:
            self._counts_from_zero |= epoch == 0
            self._epoch = epoch + self._counts_from_zero
        value = self.value(line)
        if value is None:
            return None
        return Scalar(self.name, value, reading.step_in(line[:LONGEST]), self._epoch)

    def value(self, line: str) -> float | None:
        """Return the last value in a line. Lines of the agent have none."""
        if self.name not in line or line.startswith(AGENTS_OWN):
            return None
        found = [
            each["number"]
            for each in self._pattern.finditer(f"{line[:LONGEST]}\n")
            if (each["word"] or "").lower() not in ASIDE
        ]
        return number(found[-1]) if found else None


def number(text: str) -> float | None:
    """Return the number in a text, or None."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
