"""Measurements in virtual time, without the local cloud: worlds, a week of runs, many hosts."""
