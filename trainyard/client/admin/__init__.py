"""Administration of a yard in its account: requirements, health, grants and teardown."""
