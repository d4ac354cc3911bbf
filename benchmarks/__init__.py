"""`make bench`: measurements of the budgets, without timed assertions."""
