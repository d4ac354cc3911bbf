"""What the stacks and workflows are made of, each once."""
