"""Defects planted on purpose, and the test or invariant that finds each one."""
