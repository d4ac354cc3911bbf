"""Parts that stacks and workflows share."""
