"""The functions of the workflow launch."""
