"""What every part of the local cloud stands on: its settings, its state, its context."""
