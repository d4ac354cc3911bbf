"""The agent: it boots, takes part in attempts, and leaves."""
