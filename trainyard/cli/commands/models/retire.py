"""Retire a version."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.models import Name, Version, print_answer
from trainyard.cli.options import Options


@command("trainyard models retire digits v1")
def retire(options: Options, name: Name, version: Version) -> None:
    """Retire a version that no alias names. It answers no more requests; its files stay."""
    print_answer(options, options.find().model(name).retire(version))
