"""The deadlines of a host: its lease, a hold, and an interruption notice."""
