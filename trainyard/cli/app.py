"""The table of contents of `trainyard`."""

from __future__ import annotations

from importlib import import_module
from keyword import iskeyword

import typer

from trainyard.cli.command import Command, group, root

COMMANDS = (
    "init", "check", "submit", "import", "plan", "ls", "cost", "show", "why", "logs", "get", "stop", "resume", "rerun",
    "diff", "tb", "hosts", "hold", "release", "shell", "forward", "sessions", "ui", "doctor", "demo",
)  # fmt: skip
"""Commands in the order of the help: each is the function of its name in the file of its name in commands/."""
GROUPS = {
    "dev": (
        "Dev hosts: a host to sit at, which stops by itself.",
        ("up", "down", "ls", "shell", "forward", "jupyter", "tensorboard", "ssh", "cp", "code", "proxy"),
    ),
    "image": (
        "The yard's images: bake, list, go back, freeze a host, delete.",
        ("bake", "ls", "rollback", "snapshot", "rm"),
    ),
    "yard": (
        "The yard itself: deploy, status, upgrade, grant, revoke, destroy.",
        ("status", "deploy", "upgrade", "destroy", "grant", "revoke"),
    ),
    "local": ("The local cloud: AWS on this machine.", ("up", "down", "env", "status", "fault")),
}
"""Groups with their help and commands: `dev up` is commands/dev/up.py."""


def add(app: typer.Typer, package: str, names: tuple[str, ...]) -> None:
    """Register the commands of a package."""
    for name in names:
        file = f"{name}_" if iskeyword(name) else name
        found: Command = vars(import_module(f"{package}.{file}"))[file]
        found.register(app, name)


app = group("Job file in, trained TensorFlow model out, and no GPU runs for nothing.")
root(app)
add(app, "trainyard.cli.commands", COMMANDS)
for word, (about, names) in GROUPS.items():
    inner = group(about)
    app.add_typer(inner, name=word)
    add(inner, f"trainyard.cli.commands.{word}", names)
