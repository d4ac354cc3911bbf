"""Entries of the timeline."""

import ast
from collections.abc import Iterator
from pathlib import Path

from trainyard.protocol.timeline import RANKS

ROOT = Path(__file__).parents[3]
WRITERS = {"entry", "host_entry", "note"}


def written() -> Iterator[tuple[str, str]]:
    """Yield the place and the event of each entry that a function writes."""
    for file in (ROOT / "lambdas").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "attr", getattr(node.func, "id", "")) in WRITERS
            ):
                words = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
                if event := next((word for word in words if isinstance(word, str)), None):
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", event


def test_events_of_one_millisecond_have_an_order() -> None:
    found = dict(written())
    assert len(found) > 30
    missing = {place: event for place, event in found.items() if event not in RANKS}
    assert not missing, f"add to CAUSES in trainyard/protocol/timeline.py: {missing}"
