"""Destroy the yard."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import NAME, Options
from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.client import Session
    from trainyard.client.admin.teardown import Leftover


@command("trainyard yard destroy", "trainyard yard destroy --images --data --yes")
def destroy(
    options: Options,
    images: Annotated[bool, typer.Option("--images", help="Also delete images and their snapshots.")] = False,
    data: Annotated[
        bool,
        typer.Option(
            "--data", help="Also delete the bucket (data, runs, models), ledger, secrets, volumes and logs."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Destroy the yard, and list what still costs money.

    Revokes its grants and deletes its stacks. Images, bucket, ledger and secrets stay unless --images or --data deletes
    them permanently. Repeat the command later to list or delete what is left. CDKToolkit, the CDK's own stack, stays
    because other apps use it.
    """
    from trainyard.client.admin import teardown

    session, yard = options.session(), options.yard or NAME
    kinds = (teardown.IMAGES if images else frozenset()) | (teardown.DATA if data else frozenset())
    names = teardown.stacks(session, yard)
    if not yes:
        _confirm(session, yard, names, kinds)
    teardown.delete_stacks(session, yard, lambda what: typer.echo(f"{what} ...", err=True))
    found = teardown.find_leftovers(session, yard)
    if chosen := [each for each in found if each.kind in kinds]:
        teardown.remove(session, chosen)
        typer.echo(f"Deleted permanently: {', '.join(each.name for each in chosen)}.", err=True)
    _show_left([each for each in found if each not in chosen], yard, options)


def _confirm(session: Session, yard: str, names: Sequence[str], kinds: Collection[str]) -> None:
    """End the command unless the user types the yard's name."""
    from trainyard.client.admin import people, teardown

    held = teardown.holders_of(people.grants(session, names))
    doomed = [
        *(f"the grant of {holder}" for holder in held),
        *(f"the stack {name}" for name in names),
        *sorted(f"every {kind} of the yard" for kind in kinds),
    ]
    if not doomed:
        return
    typer.echo(f"This deletes, in {session.region}: {'; '.join(doomed)}.")
    if (
        typer.prompt(f"Type the name of the yard ({yard}) to continue", default="", show_default=False)
        != yard
    ):
        typer.echo("Nothing was deleted.")
        raise typer.Exit(3)


def _show_left(found: Sequence[Leftover], yard: str, options: Options) -> None:
    from dataclasses import asdict

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column

    if options.is_json:
        terminal.answer({"yard": yard, "left": [asdict(each) for each in found]})
        return
    if not found:
        terminal.console.print(
            f"The yard {yard} is deleted completely. CDKToolkit stays because other apps use it."
        )
        return
    columns = (
        Column("KIND", 2),
        Column("NAME"),
        Column("GIB", 1, right=True),
        Column("$ A MONTH", right=True),
        Column("ABOUT", 3),
    )
    rows = [(each.kind, each.name, f"{each.gib:.2f}", f"{each.dollars:.2f}", each.about) for each in found]
    terminal.table(columns, rows)
    total = sum(each.dollars for each in found)
    terminal.hint("; ".join(dict.fromkeys(each.prices for each in found)))
    terminal.hint(
        f"At most ${total:.2f} a month. To delete permanently: {command_line('yard', 'destroy', '--images', '--data')}"
    )
