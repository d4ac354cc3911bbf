"""The server process: what answers, what is asked of the local cloud itself, what is made to fail."""
