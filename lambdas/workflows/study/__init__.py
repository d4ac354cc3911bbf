"""The functions of the workflow study."""
