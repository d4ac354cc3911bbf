"""This host's reports: signals, logs, metrics, results."""
