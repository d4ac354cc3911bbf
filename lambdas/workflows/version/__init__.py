"""The functions of the workflow version."""
