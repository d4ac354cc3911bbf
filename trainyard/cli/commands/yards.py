"""The yard itself: what it is, put it there, bring it up to date, let people use it, take it away."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.command import command, group
from trainyard.cli.options import NAME, Options
from trainyard.command_line import chosen, command_line

if TYPE_CHECKING:
    from trainyard.client import Session
    from trainyard.client.upkeep.teardown import Leftover

Settings = Annotated[
    list[str] | None,
    typer.Option("--context", "-c", metavar="KEY=VALUE", help="A setting of the yard, as of cdk.json."),
]
Reset = Annotated[
    list[str] | None,
    typer.Option("--reset", metavar="KEY", help="Set a setting of the deployed yard back to the default."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print what the CDK prints, too.")]

Who = Annotated[str, typer.Argument(metavar="WHO", help="role/NAME, user/NAME or group/NAME of IAM.")]


class Level(StrEnum):
    """A level of permissions (docs/permissions.md)."""

    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"

    @property
    def policies(self) -> tuple[str, ...]:
        """An operator is a user besides."""
        match self:
            case Level.VIEWER:
                return ("viewer",)
            case Level.USER:
                return ("user", "dev")
            case Level.OPERATOR:
                return ("user", "dev", "operator")


def register(app: typer.Typer) -> None:
    yards = group("The yard itself: deploy, status, upgrade, grant, revoke, destroy.")
    app.add_typer(yards, name="yard")
    command(yards, "status", "trainyard yard status")(status)
    command(yards, "deploy", "trainyard yard deploy", "trainyard yard deploy -c notify=you@example.com")(
        deploy
    )
    command(yards, "upgrade", "git pull && trainyard yard upgrade")(upgrade)
    command(
        yards,
        "destroy",
        "trainyard yard destroy",
        "trainyard yard destroy --images --data --yes",
    )(destroy)
    command(
        yards, "grant", "trainyard yard grant role/researchers user", "trainyard yard grant user/ada viewer"
    )(grant)
    command(yards, "revoke", "trainyard yard revoke user/ada")(revoke)


def status(options: Options) -> None:
    """Say what the yard is, and what it does now."""
    from trainyard.cli.output import terminal
    from trainyard.client.inventory import overview

    found = overview.of(options.find())
    if options.is_json:
        terminal.answer(found.to_json())
        return
    for name, value in found.lines():
        terminal.console.print(f"{name:<10} {value}", markup=False)


def deploy(options: Options, context: Settings = None, reset: Reset = None, verbose: Verbose = False) -> None:
    """Put the yard into the account.

    From a clone of Trainyard. It checks identity, region and account first, and prints a line for each step. A yard
    keeps the settings that it was deployed with until -c or --reset names them again. A bucket and a ledger that an
    earlier yard of this name has left become the yard's. What the CDK prints is in build/cdk.log.
    """
    _deploy(options, context, reset, verbose=verbose)


def upgrade(
    options: Options, context: Settings = None, reset: Reset = None, verbose: Verbose = False
) -> None:
    """Bring the yard to the version of the clone.

    Runs continue. The yard keeps its settings.
    """
    from trainyard.cli import clone
    from trainyard.cli.output import terminal
    from trainyard.client import deployment

    before, after = deployment.version_of(options.session(), options.yard or NAME), clone.version()
    if not options.quiet:
        terminal.hint(f"The yard is of version {before}, the clone of {after}.")
    _deploy(options, context, reset, verbose=verbose)


def destroy(
    options: Options,
    images: Annotated[bool, typer.Option("--images", help="Delete images and their snapshots, too.")] = False,
    data: Annotated[
        bool,
        typer.Option(
            "--data", help="Delete bucket (data, runs, models), ledger, secrets, volumes and logs, too."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Take the yard away; say what goes on costing.

    Revoke its grants and delete its stacks. Images, bucket, ledger and secrets stay unless --images or --data deletes
    them, which is for good. Later, the same command lists what is left, or deletes it. CDKToolkit, the CDK's own stack,
    stays: other apps use it.
    """
    from trainyard.client.upkeep import teardown

    session, yard = options.session(), options.yard or NAME
    kinds = (teardown.IMAGES if images else frozenset()) | (teardown.DATA if data else frozenset())
    names = teardown.stacks(session, yard)
    if not yes:
        _confirm(session, yard, names, kinds)
    teardown.delete_stacks(session, yard, lambda what: typer.echo(f"{what} ...", err=True))
    found = teardown.left(session, yard)
    if chosen := [each for each in found if each.kind in kinds]:
        teardown.remove(session, chosen)
        typer.echo(f"Deleted for good: {', '.join(each.name for each in chosen)}.", err=True)
    _show_left([each for each in found if each not in chosen], yard, options)


def grant(
    options: Options,
    who: Who,
    level: Annotated[
        Level, typer.Argument(metavar="LEVEL", show_choices=False, help="viewer, user or operator.")
    ],
) -> None:
    """Let a role, user or group of IAM use the yard.

    Attach the policies of this level, and detach those of another level. An operator has the user's policies, too.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.upkeep import people

    yard = options.find()
    granted = people.grant(yard, who, level.policies)
    if options.is_json:
        answer = {"who": who, "level": level, "policies": granted.policies, "detached": granted.detached}
        terminal.answer(answer)
        return
    terminal.console.print(
        f"{who} has the {level}'s policies of {yard.name}: {', '.join(granted.policies)}", markup=False
    )
    if granted.detached:
        terminal.console.print(f"Detached: {', '.join(granted.detached)}", markup=False)


def revoke(options: Options, who: Who) -> None:
    """Take the yard's policies off a role, user or group of IAM.

    Runs and dev hosts of a user stay.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.upkeep import people

    yard = options.find()
    detached = people.revoke(yard, who)
    if options.is_json:
        terminal.answer({"who": who, "detached": detached})
    elif detached:
        terminal.console.print(
            f"{who} has no policies of {yard.name} now. Detached: {', '.join(detached)}", markup=False
        )
    else:
        terminal.console.print(f"{who} had no policies of {yard.name}; nothing was changed.", markup=False)


def _deploy(
    options: Options, context: Sequence[str] | None, reset: Sequence[str] | None, *, verbose: bool
) -> None:
    """Raise NoRegion, NoCredentials and NotHere before anything is downloaded."""
    from trainyard.cli import clone
    from trainyard.client.upkeep import preflight

    root = clone.find()
    preflight.find_account(options.session())
    if not (root / clone.PYTHON).exists():
        clone.make(options, clone.ENVIRONMENT)
    named = [f"yard={options.yard}"] if options.yard and options.yard != NAME else []
    words = [
        *(["--verbose"] if verbose else []),
        *(word for each in (*named, *(context or [])) for word in ("-c", each)),
        *(word for each in reset or () for word in ("--reset", each)),
        *chosen(),
    ]
    clone.run([str(root / "scripts/deploy"), *words], options)


def _confirm(session: Session, yard: str, names: Sequence[str], kinds: Collection[str]) -> None:
    """End the command unless the user types the yard's name."""
    from trainyard.client.upkeep import people, teardown

    held = teardown.holders_of(people.grants(session, names))
    doomed = [
        *(f"the grant of {holder}" for holder in held),
        *(f"the stack {name}" for name in names),
        *sorted(f"every {kind} of it" for kind in kinds),
    ]
    if not doomed:
        return
    typer.echo(f"This deletes, in {session.region}: {'; '.join(doomed)}.")
    if typer.prompt(f"Type the yard's name ({yard}) to go on", default="", show_default=False) != yard:
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
        terminal.console.print(f"Nothing of the yard {yard} is left; CDKToolkit stays, other apps use it.")
        return
    columns = (
        Column("KIND", 2),
        Column("LEFT"),
        Column("GIB", 1, right=True),
        Column("$ A MONTH", right=True),
        Column("ABOUT", 3),
    )
    rows = [(each.kind, each.name, f"{each.gib:.2f}", f"{each.dollars:.2f}", each.about) for each in found]
    terminal.table(columns, rows)
    total = sum(each.dollars for each in found)
    terminal.hint("; ".join(dict.fromkeys(each.prices for each in found)))
    terminal.hint(
        f"${total:.2f} a month at most. For good: {command_line('yard', 'destroy', '--images', '--data')}"
    )
