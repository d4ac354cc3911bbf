"""The table of contents of `trainyard`."""

from __future__ import annotations

from importlib import import_module
from keyword import iskeyword

import typer

from trainyard.cli.command import Command, group, root

COMMANDS = (
    "init", "check", "submit", "import", "plan", "ls", "cost", "show", "why", "logs", "top", "get", "stop", "resume",
    "rerun", "diff", "tb", "request", "predict", "predict-batch", "serve", "hosts", "hold", "unhold", "shell",
    "forward", "sessions", "ui", "doctor", "demo",
)  # fmt: skip
"""Commands in the order of the help: each is the function of its name in the file of its name in commands/."""
GROUPS = {
    "dev": (
        "Manage dev hosts: GPU hosts to work on, which stop when idle.",
        ("up", "down", "ls", "shell", "forward", "jupyter", "tensorboard", "ssh", "cp", "code", "proxy"),
    ),
    "study": (
        "Manage studies: list, best trial, continue, add points, export.",
        ("ls", "best", "more", "add", "export"),
    ),
    "schedules": (
        "Manage schedules: list, pause, resume, remove.",
        ("ls", "show", "pause", "resume", "rm"),
    ),
    "image": (
        "Manage images: bake, list, roll back, snapshot a host, delete.",
        ("bake", "ls", "rollback", "snapshot", "rm"),
    ),
    "models": (
        "Manage models: create, list, roll back, retire a version.",
        ("create", "ls", "show", "rollback", "canary", "approve", "retire"),
    ),
    "versions": (
        "Manage versions of a model: create, list, set the default.",
        ("create", "ls", "set-default"),
    ),
    "webhook": (
        "Manage webhooks: notifications in Slack, Teams, Discord, or a server.",
        ("add", "ls", "test", "rm"),
    ),
    "yard": (
        "Manage the yard: deploy, upgrade, grant, destroy.",
        ("status", "deploy", "upgrade", "destroy", "grant", "revoke"),
    ),
    "local": (
        "Manage the local cloud: AWS on this machine.",
        ("up", "down", "env", "status", "fault", "push"),
    ),
}
"""Groups with their help and commands: `dev up` is commands/dev/up.py."""


def add(app: typer.Typer, package: str, names: tuple[str, ...]) -> None:
    """Register the commands of a package."""
    for name in names:
        file = f"{name}_" if iskeyword(name) else name.replace("-", "_")
        found: Command = vars(import_module(f"{package}.{file}"))[file]
        found.register(app, name)


app = group("Train TensorFlow models on GPU hosts in your AWS account, from a job file.")
root(app)
add(app, "trainyard.cli.commands", COMMANDS)
for word, (about, names) in GROUPS.items():
    inner = group(about)
    app.add_typer(inner, name=word)
    add(inner, f"trainyard.cli.commands.{word}", names)
