"""Notebooks as jobs: checked before the upload, and executed cell by cell on the host."""
