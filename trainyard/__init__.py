"""Trainyard: what training programs import, and the client of a deployed yard."""
