"""The functions of the workflow snapshot."""
