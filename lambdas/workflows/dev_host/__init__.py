"""The functions of the workflow dev-host."""
