"""Server-sent events that keep a page current: changed parts of the page, and data for its scripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from trainyard.ui.cache import FRESH, Cache
from trainyard.ui.pages.page import Page, PageEvent, read_values
from trainyard.ui.templating import Templates, digest

FIRST = "0"
SOON = 0.2
"""Seconds until the next pass if a page still reads, which it says by `reads_on`."""
QUIET = 15.0
"""Seconds without an event after which a comment keeps the connection open."""


async def stream(
    page: Page, cache: Cache, templates: Templates, closing: asyncio.Event, *, have: str, last: str
) -> AsyncIterator[str]:
    """Yield events until `closing` is set or the browser disconnects.

    `have` lists the parts that the page came with, as `name:digest`. `last` is the ID of the last event before a
    reconnection. After a reconnection all parts are sent again.
    """
    shown = {} if last else dict(each.split(":", 1) for each in have.split() if ":" in each)
    yield f"id: {last or FIRST}\n\n"  # the browser sends it back when it reconnects
    sent: dict[str, Any] = {}
    quiet = 0.0
    while True:
        seen = await read_values(page, cache)
        events = [
            *_format_changes(templates.parts(page, seen), shown),
            *(_format_event(each) for each in page.list_events(seen, sent, last)),
        ]
        quiet = 0.0 if events else quiet + FRESH
        for event in events:
            yield event
        if quiet >= QUIET:
            quiet = 0.0
            yield ": keep-alive\n\n"
        if await _closes(closing, SOON if seen.get("reads_on") else FRESH):
            return


def _format_changes(parts: dict[str, str], shown: dict[str, str]) -> list[str]:
    """Return one message with all changed parts, so that the browser updates them together; none without changes."""
    new = {name: text for name, text in parts.items() if shown.get(name) != digest(text)}
    shown |= {name: digest(text) for name, text in new.items()}
    text = "".join(
        f'<hx-partial hx-target="#{name}" hx-swap="innerMorph">{part}</hx-partial>'
        for name, part in new.items()
    )
    return [_message(text)] if text else []


def _format_event(sent: PageEvent) -> str:
    known = f"id: {sent.id}\n" if sent.id else ""
    return f"{known}event: {sent.event}\n{_message(json.dumps(sent.data, allow_nan=False))}"


def _message(text: str) -> str:
    return "".join(f"data: {line}\n" for line in text.splitlines()) + "\n"


async def _closes(closing: asyncio.Event, seconds: float) -> bool:
    """Wait for the next pass. Return True if the command ends meanwhile."""
    try:
        await asyncio.wait_for(closing.wait(), seconds)
    except TimeoutError:
        return False
    return True
