"""`make bench`: the figures of the budgets, measured, never asserted in timed tests."""
