"""Trainyard: what training programs import, and the client of a deployed yard."""

__version__ = "0.2.0"
