"""Take a yard out of the account and region of the environment, and say what is left and what it costs.

    python -m scripts.destroy [--yard Trainyard] [--images] [--data] [--yes]

The stacks go; images, bucket and ledger stay, unless --images or --data asks for them to be deleted too, which is for
good. The same command again, later, says what is left, or removes it. The CDK's own stack (CDKToolkit) stays: other
apps use it.
"""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.prompt import Prompt
from rich.table import Table

from trainyard.client import Session, YardError
from trainyard.client.teardown import DATA, IMAGES, Leftover, delete_stacks, left, remove, stacks

WIDTH_OF_A_LOG = 140


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--yard", default="Trainyard", help="its name, as in cdk.json (Trainyard)")
    parser.add_argument("--images", action="store_true", help="delete images and their snapshots as well")
    parser.add_argument(
        "--data",
        action="store_true",
        help="delete bucket (data, runs, models), ledger, volumes and logs as well",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_LOG)
    errors = Console(stderr=True, soft_wrap=True)
    kinds = (IMAGES if arguments.images else frozenset()) | (DATA if arguments.data else frozenset())
    try:
        return destroy(Session.of(), arguments.yard, kinds, console, asks=not arguments.yes)
    except YardError as error:
        errors.print(f"destroy: {error}", markup=False, highlight=False)
        return 3


def destroy(session: Session, yard: str, kinds: frozenset[str], console: Console, *, asks: bool) -> int:
    """Exits with 0, and with 1 where the person did not confirm."""
    names = stacks(session, yard)
    doomed = [*(f"the stack {name}" for name in names), *sorted(f"every {kind} of it" for kind in kinds)]
    if asks and doomed:
        console.print(f"This deletes, in {session.region}: {'; '.join(doomed)}.", highlight=False)
        if Prompt.ask(f"Type the yard's name ({yard}) to go on", console=console) != yard:
            console.print("Nothing was deleted.")
            return 1
    delete_stacks(session, yard, lambda name: console.print(f"deleting {name} ...", highlight=False))
    found = left(session, yard)
    if chosen := [each for each in found if each.kind in kinds]:
        remove(session, chosen)
        console.print(f"Deleted for good: {', '.join(each.name for each in chosen)}.", highlight=False)
    show([each for each in found if each not in chosen], yard, console)
    return 0


def show(found: Sequence[Leftover], yard: str, console: Console) -> None:
    if not found:
        console.print(
            f"Nothing of the yard {yard} is left; CDKToolkit stays, other apps use it.", highlight=False
        )
        return
    table = Table(title=f"What is left of {yard}", title_justify="left", box=None)
    for heading in ("", "name", "", "GiB", "at most $ a month"):
        table.add_column(
            heading, overflow="fold", justify="right" if "G" in heading or "$" in heading else "left"
        )
    for each in found:
        table.add_row(each.kind, each.name, each.about, f"{each.gib:.2f}", f"{each.dollars:.2f}")
    console.print(table)
    total = sum(each.dollars for each in found)
    console.print("; ".join(dict.fromkeys(each.prices for each in found)), highlight=False)
    console.print(
        f"${total:.2f} a month at most. To delete them for good: make destroy ARGS='--images --data'",
        highlight=False,
    )


if __name__ == "__main__":
    sys.exit(main())
