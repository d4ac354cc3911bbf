"""What a dev host has besides: a host of a launch that somebody sits at, by its tag `trainyard:dev`."""

TAG = "trainyard:dev"
"""The name that its owner gave it."""
UNIT = "trainyard-jupyter.service"
