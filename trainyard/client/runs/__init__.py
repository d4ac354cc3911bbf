"""The records, lists, logs, reasons and costs of runs."""
