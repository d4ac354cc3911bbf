"""A run while it lasts and when it ends: its records, its deadlines, its recovery, its summary."""
