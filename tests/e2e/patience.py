"""How long a story waits for what will come.

Beside other work a machine takes minutes for what takes it seconds, and only what never comes is a failure: how long
things take is measured in benchmarks/, and promised times are held in the simulator's time.
"""

PATIENCE = 900.0
"""Seconds. Two such waits are within pytest's own limit for a test (pyproject.toml)."""
