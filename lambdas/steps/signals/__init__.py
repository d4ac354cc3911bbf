"""The handling of signals, by sender."""
