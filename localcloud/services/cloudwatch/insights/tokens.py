"""Tokenizer of Logs Insights queries."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Value = str | float | None

TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<regex>/(?:[^/\\\n]|\\.)+/i?)"""
    r"""|(?P<number>-?\d+(?:\.\d+)?(?![\w.]))|(?P<name>`[^`]+`|[@\w][\w.@-]*)|(?P<mark>!=|<=|>=|=~|[=<>(),|*\[\]]))"""
)


class MalformedError(Exception):
    """A syntax error in a query."""


class Tokens:
    """The tokens of a query, with a position."""

    def __init__(self, text: str) -> None:
        self._found: list[tuple[str, str]] = []
        self.position = 0
        end = 0
        while text[end:].strip():
            match = TOKEN.match(text, end)
            if match is None:
                raise MalformedError(f"unexpected symbol at {text[end:].strip()[:20]!r}")
            self._found.append((str(match.lastgroup), match[match.lastgroup or 0]))
            end = match.end()

    @property
    def left(self) -> bool:
        return self.position < len(self._found)

    def _take(self, kind: str) -> str | None:
        if self.left and self._found[self.position][0] == kind:
            self.position += 1
            return self._found[self.position - 1][1]
        return None

    def next_is(self, *texts: str) -> bool:
        return self.left and self._found[self.position][1].lower() in texts

    def word(self, *words: str) -> str | None:
        """Consume and return the next token if it is one of these words."""
        return (self._take("name") or "").lower() if self.next_is(*words) else None

    def mark(self, mark: str) -> bool:
        """Consume the next token if it is this mark. Return True if it was."""
        return self.next_is(mark) and self._take("mark") is not None

    def expect(self, mark: str) -> None:
        if not self.mark(mark):
            found = self._found[self.position][1] if self.left else "the end"
            raise MalformedError(f"{mark!r} is missing before {found}")

    def name(self) -> str:
        found = self._take("name")
        if found is None:
            raise MalformedError(
                f"a name is missing before {self._found[self.position][1] if self.left else 'the end'}"
            )
        return found.strip("`")

    def number(self) -> float:
        found = self._take("number")
        if found is None:
            raise MalformedError("a number is missing")
        return float(found)

    def literal(self) -> Value:
        if (text := self._take("string")) is not None:
            return re.sub(r"\\(.)", r"\1", text[1:-1])
        return float(number) if (number := self._take("number")) is not None else None

    def pattern(self) -> re.Pattern[str]:
        """Consume the operand of `like`."""
        expression, text = self._take("regex"), None
        if expression is None:
            text = self.literal()
            if not isinstance(text, str):
                raise MalformedError("like takes a text or a /regular expression/")
            return re.compile(re.escape(text))
        body, _, flags = expression[1:].rpartition("/")
        try:
            return re.compile(body, re.IGNORECASE if flags else 0)
        except re.error as wrong:
            raise MalformedError(f"{expression}: {wrong}") from wrong

    def parse_list(self, one: Callable[[Tokens], Any]) -> list[Any]:
        found = [one(self)]
        while self.mark(","):
            found.append(one(self))
        return found

    def text_since(self, begin: int) -> str:
        """Return the text of the tokens from `begin` to the current position."""
        return "".join(text for _, text in self._found[begin : self.position]).strip("`")
