"""Additions for dev hosts, on which users work interactively. A dev host has the tag `dev`."""

UNIT = "trainyard-jupyter.service"
