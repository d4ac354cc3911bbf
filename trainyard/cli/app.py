"""The table of contents of `trainyard`."""

from trainyard.cli.command import group, root
from trainyard.cli.commands import (
    comparing,
    dev,
    doctor,
    hosts,
    images,
    import_job,
    jobs,
    listing,
    local,
    looking,
    page,
    planning,
    sessions,
    steering,
    yards,
)

app = group("Job file in, trained TensorFlow model out, and no GPU runs for nothing.")
root(app)
for drawer in (
    jobs,
    import_job,
    planning,
    listing,
    looking,
    steering,
    comparing,
    hosts,
    sessions,
    dev,
    images,
    page,
    doctor,
    yards,
    local,
):
    drawer.register(app)
