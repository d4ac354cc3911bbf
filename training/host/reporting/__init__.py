"""What this host says: signals, logs, metrics, results."""
