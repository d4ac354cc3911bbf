"""The time limit of waits in end-to-end tests.

A busy machine needs minutes for seconds of work, so only an event that never happens is a failure. benchmarks/ measures
durations, and the simulator checks promised times in virtual time.
"""

PATIENCE = 900.0
"""Seconds. Two such waits fit into pytest's limit for a test (pyproject.toml)."""
