"""What a dev host has besides: a host of a launch that somebody sits at, by its tag `dev`."""

UNIT = "trainyard-jupyter.service"
