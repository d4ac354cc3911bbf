"""The table of contents of `trainyard`."""

from trainyard.cli.command import group, root
from trainyard.cli.commands import jobs

app = group("Job file in, trained TensorFlow model out, and no GPU runs for nothing.")
root(app)
jobs.register(app)
