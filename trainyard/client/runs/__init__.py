"""What is known of runs: records, lists, logs, reasons, money."""
