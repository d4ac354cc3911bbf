"""What every part of the local cloud stands on: its facts, its state, its context."""
