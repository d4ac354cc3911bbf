"""List the images."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard image ls")
def ls(options: Options) -> None:
    """List the images, newest first."""
    from dataclasses import asdict

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.client.inventory import images
    from trainyard.values.quantities import span

    found = images.list_images(options.find())
    if options.is_json:
        terminal.answer([asdict(image) for image in found])
        return
    columns = (
        Column("IMAGE"),
        Column("STATE"),
        Column("FAMILY", 1),
        Column("AGE", 2, right=True),
        Column("GIB", 4, right=True),
        Column("TENSORFLOW", 3),
        Column("DRIVER", 5),
        Column("TESTS", 6),
        Column("NAME", 7),
    )
    rows = [
        (
            image.id,
            image.standing or image.state,
            image.family,
            span(image.age),
            f"{image.gib:.0f}",
            image.tensorflow,
            image.driver,
            image.tests,
            image.name,
        )
        for image in found
    ]
    terminal.table(columns, rows, ["bold" if image.standing == "current" else "" for image in found])
