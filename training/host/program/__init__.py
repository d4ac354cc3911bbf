"""The user's program: fetch it, start it with its cluster's addresses, and decide how it ended."""
