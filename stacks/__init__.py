"""Everything that is deployed: a file for each stack, workflows in `workflows`, and shared parts in `constructs`."""
