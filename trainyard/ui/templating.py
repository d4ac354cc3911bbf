"""Render pages to HTML. The filters format times, money and untrusted text."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import trainyard
from trainyard.client import YardError
from trainyard.client.predictions import Prediction
from trainyard.core.model import ends
from trainyard.ui.pages.page import Page, Seen
from trainyard.ui.view import filter_state, name_state
from trainyard.values import floats
from trainyard.values.quantities import dollars, format_bytes, format_count, span
from trainyard.values.text import printable

SECTIONS = {
    "runs": "/", "studies": "/studies", "schedules": "/schedules", "hosts": "/hosts", "money": "/money",
    "images": "/images", "models": "/models",
}  # fmt: skip
"""The navigation of the page: sections and their paths."""

FAILED_ATTEMPT = re.compile(
    r"^Attempt \d+ (?:failed|ended)[^:]*: \w+(?:, [^:(]*)?(?: \(exit code \d+\))?: "
    r"(?:the program ended with exit code \d+: )?"
)
"""The beginning of a reason if the last attempt failed (lambdas/core/run/recovery.py)."""

EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure|Fault|Warning)\b(?::|$)"
)
"""The beginning of the last line of a traceback."""

MOST_ROWS = 100
"""The most rows of an answer that the page shows."""


@dataclass(frozen=True)
class Templates:
    """The templates for a yard."""

    yard: str
    place: str
    """Account and region."""

    def page(self, page: Page, seen: Seen, path: str) -> str:
        """Render the whole page at this path."""
        parts = {name: Markup(text) for name, text in self.parts(page, seen).items()}  # noqa: S704 - rendered just now
        have = " ".join(f"{name}:{digest(text)}" for name, text in parts.items())
        events = f"{path.rstrip('/')}/events?{urlencode({**page.query, 'have': have}, doseq=True)}"
        return self._render(
            f"{page.name}/page.html", {**seen, "page": page, "parts": parts, "events": events}
        )

    def parts(self, page: Page, seen: Seen) -> dict[str, str]:
        """Render the parts that can change. After an error, render only the error, so that the other parts stay."""
        troubles = {"troubles": self._render("troubles.html", seen)}
        if len(seen) == 1:
            return troubles
        return troubles | {name: self._render(f"{page.name}/{name}.html", seen) for name in page.parts}

    def dialog(self, name: str, **seen: Any) -> str:
        """Render the dialog of an action."""
        return self._render(f"dialogs/{name}.html", seen)

    def trouble(self, error: YardError) -> str:
        """Render an error."""
        return self._render("troubles.html", {"troubles": [error]})

    def prediction(self, answer: Prediction) -> str:
        """Render the answer of a version, a line for each row."""
        found = answer.predictions
        rows = [json.dumps(each) for each in (found if isinstance(found, list) else [found])]
        return self._render(
            "model/answer.html", {"answer": answer, "rows": rows[:MOST_ROWS], "more": rows[MOST_ROWS:]}
        )

    def refusal(self, error: YardError) -> str:
        """Render a page with only an error."""
        return self._render("refusal.html", {"troubles": [error], "page": None})

    def _render(self, template: str, seen: Seen) -> str:
        return self._templates.get_template(template).render(seen)

    @cached_property
    def _templates(self) -> Environment:
        made = Environment(
            loader=PackageLoader("trainyard.ui"),
            autoescape=True,
            finalize=harmless,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        made.filters |= {
            "counted": format_count, "dollars": dollars, "span": span, "sized": format_bytes,
            "stamp": timestamp, "clock": clock, "standing": name_state, "filtered": filter_state,
            "measured": format_measured, "failure": failure, "shown": show_value, "outcome": ends.word_for,
        }  # fmt: skip
        made.globals |= {
            "yard": self.yard, "place": self.place, "sections": SECTIONS, "version": trainyard.__version__,
        }  # fmt: skip
        return made


def digest(text: str) -> str:
    """Return a short digest that identifies unchanged parts."""
    return hashlib.blake2s(text.encode(), digest_size=6).hexdigest()


def harmless(value: Any) -> Any:
    """Escape invisible characters in untrusted text. Rendered markup stays."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def failure(reason: str) -> str:
    """Return the line of a reason that names what went wrong: the last exception that it quotes, else its first line
    without the attempt and the error class."""
    first, *quoted = reason.split("\n")
    if exceptions := [line for line in quoted if EXCEPTION.match(line)]:
        return exceptions[-1]
    return FAILED_ATTEMPT.sub("", first) or first


def show_value(value: Any) -> str:
    """Return a value of a job or of a run's results as text; a missing one is a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return format_measured(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def format_measured(value: float) -> str:
    """Return a number that a program measured, in four digits; NaN is a text."""
    return floats.format_float(value, ".4g")


def timestamp(at: datetime) -> str:
    """Format a time for programs."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def clock(at: datetime) -> str:
    """Format a time for users. A script of the page shortens it."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
