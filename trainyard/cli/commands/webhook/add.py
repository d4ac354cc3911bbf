"""Register a webhook."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.command_line import command_line
from trainyard.protocol.webhooks import NotificationKind, WebhookKind

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the webhook, or me for your own.")]


@command(
    "trainyard webhook add ml --kind slack",
    "trainyard webhook add me --kind discord --on end,failure",
    'printf %s "$URL" | trainyard webhook add pager --kind url --named-only',
)
def add(
    options: Options,
    name: Name,
    kind: Annotated[
        WebhookKind,
        typer.Option("--kind", metavar="KIND", show_choices=False, help="slack, teams, discord or url."),
    ],
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="KIND,...",
            help="Notifications to send: end, failure, interruption, budget, idle, alarm, day. "
            "Default: all except day.",
        ),
    ] = "",
    named_only: Annotated[
        bool, typer.Option("--named-only", help="Send only what concerns runs whose job names it in notify.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a webhook of this name.")] = False,
) -> None:
    """Register a webhook. Its URL is a secret, which is typed without being shown, or read from a pipe.

    A webhook of the yard gets the notifications of all runs and of the yard. Your own one gets the
    notifications of your runs.
    """
    from trainyard.cli.output import terminal
    from trainyard.client import webhooks
    from trainyard.client.identity import caller_name
    from trainyard.protocol.webhooks import Webhook

    yard = options.find()
    kinds = _kinds(on)
    url = typer.prompt("URL (not shown)", hide_input=True) if sys.stdin.isatty() else sys.stdin.read()
    key = webhooks.make_key() if kind is WebhookKind.URL else ""
    hook = Webhook(
        kind=kind, on=kinds, named_only=named_only, by=caller_name(yard.session), url=url.strip(), key=key
    )
    webhooks.add(yard, name, hook, replace=replace)
    if options.is_json:
        terminal.answer({"name": name, "kind": kind, "on": kinds, "named_only": named_only, "key": key})
        return
    terminal.console.print(f"{name} gets: {', '.join(kinds)}", markup=False)
    if key:
        terminal.console.print(f"Key of the signatures, shown only now: {key}", markup=False)
    terminal.hint(f"Next: {command_line('webhook', 'test', name)}")


def _kinds(words: str) -> tuple[NotificationKind, ...]:
    from trainyard.protocol.webhooks import USUAL
    from trainyard.values.validation import did_you_mean

    known = [kind.value for kind in NotificationKind]
    chosen = [word.strip() for word in words.split(",") if word.strip()]
    for word in chosen:
        if word not in known:
            raise typer.BadParameter(f"--on {word}: expected {', '.join(known)}{did_you_mean(word, known)}")
    return tuple(kind for kind in NotificationKind if kind.value in chosen) if chosen else USUAL
