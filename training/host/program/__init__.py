"""The user's program: fetched, started, told about its cluster, judged when it ends."""
