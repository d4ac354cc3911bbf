"""Deploy the yard into the account."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.cli.arguments import Reset, Settings, Verbose
from trainyard.cli.command import command
from trainyard.cli.options import NAME, Options
from trainyard.command_line import chosen_options


@command("trainyard yard deploy", "trainyard yard deploy -c notify=you@example.com")
def deploy(options: Options, context: Settings = None, reset: Reset = None, verbose: Verbose = False) -> None:
    """Deploy the yard into the account.

    Checks identity, region and account first, and prints a line for each step. A yard keeps
    its settings until -c or --reset changes them. It adopts the bucket and the ledger of a destroyed yard of the same
    name. The output of the CDK is in build/cdk.log.
    """
    deploy_clone(options, context, reset, verbose=verbose)


def deploy_clone(
    options: Options, context: Sequence[str] | None, reset: Sequence[str] | None, *, verbose: bool
) -> None:
    """Deploy the clone. Raises NoRegion, NoCredentials and NotHere before it downloads anything."""
    from trainyard.cli import clone
    from trainyard.client.admin import preflight

    root = clone.find()
    preflight.find_account(options.session())
    if not (root / clone.PYTHON).exists():
        clone.make(options, clone.ENVIRONMENT)
    named = [f"yard={options.yard}"] if options.yard and options.yard != NAME else []
    words = [
        *(["--verbose"] if verbose else []),
        *(word for each in (*named, *(context or [])) for word in ("-c", each)),
        *(word for each in reset or () for word in ("--reset", each)),
        *chosen_options(),
    ]
    clone.run([str(root / "scripts/deploy"), *words], options)
