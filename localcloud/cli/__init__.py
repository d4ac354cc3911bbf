"""The command line of the local cloud."""
