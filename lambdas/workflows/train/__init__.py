"""The functions of the workflow train."""
