"""The pages: each gathers what it shows, by the client alone."""
