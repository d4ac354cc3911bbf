"""Show a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainyard.cli.command import command
from trainyard.cli.models import Name
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.protocol.ledger.models import ModelRows, VersionRow

MOST_MOVES = 10


@command("trainyard models show digits")
def show(options: Options, name: Name) -> None:
    """Show a model: its versions with their origin, its aliases, and their last moves."""
    from trainyard.cli.output import terminal
    from trainyard.protocol.predictions import url_of
    from trainyard.values import serialization

    yard = options.find()
    rows, url = yard.model(name).rows, yard.model_url
    if options.is_json:
        terminal.answer({"url": url and url_of(url, name), **serialization.to_json(rows)})
        return
    terminal.console.print(f"{rows.row.name} of {rows.row.owner}", markup=False)
    if url:
        terminal.console.print(f"  URL: {url_of(url, name)}", markup=False)
    for alias, number in sorted(rows.row.aliases.items()):
        found = rows.find(str(number))
        terminal.console.print(f"  {alias}: version {found.shown if found else number}", markup=False)
    _show_tried(rows)
    for version in reversed(rows.versions):
        _show_version(rows, version)
    if rows.moves:
        terminal.console.print("Moves", markup=False)
    for move in rows.moves[: -MOST_MOVES - 1 : -1]:
        before = f" instead of {move.old}" if move.old else ""
        approved = f", approved by {move.approved}" if move.approved else ""
        terminal.console.print(
            f"  {move.at:%Y-%m-%d %H:%M} {move.alias} names {move.new}{before}: {move.why} by {move.by}{approved}",
            markup=False,
        )


def _show_tried(rows: ModelRows) -> None:
    """Print the canary, the shadow, and the moves that wait for approval."""
    from trainyard.cli.output import terminal
    from trainyard.protocol.ledger.models import CANARY, SHADOW

    for word, each in ((CANARY, rows.row.canary), (SHADOW, rows.row.shadow)):
        if each:
            until = f"until {each.until:%Y-%m-%d %H:%M}, by {each.by}"
            terminal.console.print(
                f"  {word}: version {each.version} with {each.percent} % {until}", markup=False
            )
    for alias, waiting in sorted(rows.row.pending.items()):
        terminal.console.print(
            f"  {alias}: version {waiting.version} waits for the approval of a user other than {waiting.by} until "
            f"{waiting.until:%Y-%m-%d %H:%M}",
            markup=False,
        )


def _show_version(rows: ModelRows, version: VersionRow) -> None:
    from trainyard.cli.output import terminal

    names = ", ".join(rows.aliases_of(version.number))
    terminal.console.print(
        f"Version {version.shown}: {version.state}{f', {names}' if names else ''}", markup=False
    )
    trial = f", trial {version.trial} of {version.study}" if version.study else ""
    facts = {
        "reason": version.reason,
        "run": f"{version.run}{trial}" if version.run else None,
        "origin": None if version.run else version.origin,
        "program": version.program,
        "data": ", ".join(version.data.values()),
        "metrics": ", ".join(f"{key} {value:.6g}" for key, value in sorted(version.metrics.items())),
        "signatures": ", ".join(sorted(version.signatures)),
        "LiteRT": version.lite.value + (f": {version.lite_reason}" if version.lite_reason else ""),
        "created": f"{version.at:%Y-%m-%d %H:%M} by {version.by}",
    }
    for word, value in facts.items():
        if value:
            terminal.console.print(f"  {word}: {value}", markup=False)
