"""Defects planted on purpose, with the test or invariant that must find each one."""
